/// The alarms that are raised, and those that were.
///
///     (wrong) ── `delay` ──► raised ──► (good again) ── `quiet` ──► cleared, and in the history
///
/// An alarm that comes back soon after it was cleared takes twice as long to clear each time, so that whatever comes and goes is one alarm.
/// Invariants: at most `Limits.alarmsMax` are raised, at most `Limits.alarmHistoryMax` are remembered.
struct AlarmBoard {
    private struct Entry {
        /// nil while it is not raised yet.
        var alarm: Alarm?
        /// Since when something is wrong.
        let wrongSince: UInt64
        /// Since when it is good again; nil while it is wrong.
        var goodSince: UInt64?
    }

    private var entries: [AlarmSubject: Entry] = [:]
    /// The newest last.
    private(set) var history: [Alarm] = []
    /// How often those that were cleared lately have come back, and when they were cleared.
    private var returns: [AlarmSubject: (count: Int, clearedAt: UInt64)] = [:]
    private var lastNumber = 0

    /// The newest first.
    var raised: [Alarm] { entries.values.compactMap(\.alarm).sorted { $0.number > $1.number } }

    func count(of kind: AlarmKind) -> Int { entries.values.count { $0.alarm?.subject.kind == kind } }

    /// Takes in all that is wrong now.
    ///
    /// - Returns: what is raised and cleared by it, in the order of their kinds and names.
    mutating func observe(_ conditions: [AlarmCondition], at now: Moment) -> [AlarmChange] {
        var changes: [AlarmChange] = []
        var found: Set<AlarmSubject> = []
        for condition in conditions where found.insert(condition.subject).inserted {
            if let change = note(condition, now) { changes.append(change) }
        }
        // Never in the order of a dictionary.
        for subject in entries.keys.filter({ !found.contains($0) }).sorted(by: Self.comesFirst) {
            if let change = recordGood(subject, now) { changes.append(change) }
        }
        returns = returns.filter { subject, last in
            entries[subject] != nil || now.milliseconds - min(now.milliseconds, last.clearedAt) < Limits.alarmReturnMilliseconds
        }
        return changes
    }

    private mutating func note(_ condition: AlarmCondition, _ now: Moment) -> AlarmChange? {
        let subject = condition.subject
        guard var entry = entries[subject] else {
            guard !condition.isHolding, entries.count < Limits.alarmsMax else { return nil }
            entries[subject] = Entry(wrongSince: now.milliseconds)
            return raise(condition, now)
        }
        if condition.isHolding, entry.alarm == nil {
            entries[subject] = nil
            return nil
        }
        entry.goodSince = nil
        entry.alarm?.message = condition.message
        entries[subject] = entry
        return entry.alarm == nil ? raise(condition, now) : nil
    }

    /// Raises it if it was wrong for long enough.
    private mutating func raise(_ condition: AlarmCondition, _ now: Moment) -> AlarmChange? {
        let subject = condition.subject
        guard let entry = entries[subject], now.milliseconds - min(now.milliseconds, entry.wrongSince) >= subject.kind.delay else {
            return nil
        }
        lastNumber += 1
        entries[subject]?.alarm = Alarm(
            number: lastNumber, subject: subject, message: condition.message, raisedAt: now.wallMilliseconds)
        if returns[subject] != nil { returns[subject]?.count += 1 }
        return AlarmChange(
            kind: subject.kind, text: "Alarm \(lastNumber) raised: \(subject.text): \(condition.message)", isRaised: true)
    }

    private mutating func recordGood(_ subject: AlarmSubject, _ now: Moment) -> AlarmChange? {
        guard var entry = entries[subject] else { return nil }
        guard var alarm = entry.alarm else {
            entries[subject] = nil
            return nil
        }
        let since = entry.goodSince ?? now.milliseconds
        entry.goodSince = since
        let count = returns[subject]?.count ?? 0
        let quiet = min(Limits.alarmQuietMilliseconds << UInt64(min(count, 16)), Limits.alarmReturnMilliseconds)
        guard now.milliseconds - min(now.milliseconds, since) >= quiet else {
            entries[subject] = entry
            return nil
        }
        entries[subject] = nil
        returns[subject] = (count, now.milliseconds)
        alarm.clearedAt = now.wallMilliseconds
        history.append(alarm)
        if history.count > Limits.alarmHistoryMax { history.removeFirst(history.count - Limits.alarmHistoryMax) }
        let seconds = (now.wallMilliseconds - min(now.wallMilliseconds, alarm.raisedAt)) / 1000
        return AlarmChange(
            kind: subject.kind, text: "Alarm \(alarm.number) cleared: \(subject.text), after \(seconds) s.", isRaised: false)
    }

    /// Somebody knows of it. Returns the alarm, nil if there is none of this number.
    mutating func acknowledge(_ number: Int, by who: String, at now: Moment) -> Alarm? {
        let acknowledgement = (who, now.wallMilliseconds)
        if let subject = entries.first(where: { $0.value.alarm?.number == number })?.key {
            if entries[subject]?.alarm?.acknowledgement == nil { entries[subject]?.alarm?.acknowledgement = acknowledgement }
            return entries[subject]?.alarm
        }
        guard let place = history.firstIndex(where: { $0.number == number }) else { return nil }
        if history[place].acknowledgement == nil { history[place].acknowledgement = acknowledgement }
        return history[place]
    }

    private static func comesFirst(_ left: AlarmSubject, _ right: AlarmSubject) -> Bool {
        (left.kind.rawValue, left.name) < (right.kind.rawValue, right.name)
    }
}

extension AlarmSubject {
    /// As the log has it.
    fileprivate var text: String { name.isEmpty ? kind.rawValue : "\(kind.rawValue) \(name)" }
}
