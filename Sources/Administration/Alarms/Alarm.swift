internal import BrokerModel
internal import Cluster
internal import HTTP
internal import JSON

/// What can be wrong with the broker for longer than a moment.
public enum AlarmKind: String, CaseIterable, Sendable {
    /// The store takes nothing any more.
    case storeFailed = "store_failed"
    /// The store has no room.
    case storeFull = "store_full"
    /// Commits take long.
    case storeSlow = "store_slow"
    /// Where the store is there is little room left.
    case diskNearlyFull = "disk_nearly_full"
    /// Much of `memory_limit` is in use.
    case memoryHigh = "memory_high"
    /// All of `memory_limit` is in use.
    case memoryFull = "memory_full"
    /// Messages are dropped because queues are full.
    case queuesFull = "queues_full"
    /// Clients do not take what they are sent, as `martlet_slow_client` has it.
    case slowClients = "slow_clients"
    /// A bridge is not connected. Of each bridge.
    case bridgeDown = "bridge_down"
    /// A listener's certificate ends soon. Of each listener.
    case certificateEnds = "certificate_ends_soon"
    /// A listener's certificate has ended. Of each listener.
    case certificateEnded = "certificate_expired"
    /// Messages are not carried to other nodes.
    case clusterDown = "cluster_down"
    /// Another node of the cluster does not answer. Of each node.
    case nodeDown = "node_down"
    /// The cluster's servers have no room.
    case clusterFull = "cluster_full"
    /// The clock of another node differs. Of each node.
    case clockDiffers = "clock_differs"
    /// A source of logins cannot be asked. Of each source.
    case loginSourceDown = "login_source_down"

    /// Whether messages are lost or refused, or clients cannot connect, while it lasts.
    public var isCritical: Bool {
        switch self {
        case .storeFailed, .storeFull, .memoryFull, .queuesFull, .certificateEnded, .clusterDown, .clusterFull, .loginSourceDown:
            true
        case .storeSlow, .diskNearlyFull, .memoryHigh, .slowClients, .bridgeDown, .certificateEnds, .nodeDown, .clockDiffers: false
        }
    }

    /// How long something has to be wrong before the alarm is raised, in milliseconds.
    var delay: UInt64 {
        switch self {
        case .storeFailed, .storeFull, .memoryFull, .queuesFull, .certificateEnds, .certificateEnded, .clusterFull, .slowClients,
            .loginSourceDown:
            0
        case .storeSlow, .diskNearlyFull, .memoryHigh, .clusterDown, .clockDiffers: 5000
        case .bridgeDown, .nodeDown: 10_000
        }
    }
}

/// What an alarm is of: of each there is one at most.
struct AlarmSubject: Hashable, Sendable {
    let kind: AlarmKind
    /// The bridge, listener or node; empty where there is one alone.
    var name = ""
}

/// A condition that is wrong at a moment.
struct AlarmCondition: Sendable {
    let subject: AlarmSubject
    /// A sentence for people.
    let message: String
    /// Whether the condition is no longer bad enough to raise an alarm, and not yet good enough to clear one.
    var isHolding = false

    init(_ kind: AlarmKind, of name: String = "", _ message: String, isHolding: Bool = false) {
        subject = AlarmSubject(kind: kind, name: name)
        (self.message, self.isHolding) = (message, isHolding)
    }
}

/// One alarm, from its beginning.
struct Alarm: Sendable {
    /// Counted from 1 since the start of the broker.
    let number: Int
    let subject: AlarmSubject
    var message: String
    /// Milliseconds since 1970.
    let raisedAt: UInt64
    /// nil while it lasts.
    var clearedAt: UInt64?
    /// The administrator who has said that they know of it, and when.
    var acknowledgement: (who: String, at: UInt64)?
}

/// What has become of an alarm.
public struct AlarmChange: Sendable {
    public let kind: AlarmKind
    /// As the log has it.
    public let text: String
    public let isRaised: Bool
}

/// The alarms that are raised, and those that were.
///
///     (wrong) ── `delay` ──► raised ──► (good again) ── `quiet` ──► cleared, and in the history
///
/// An alarm that comes back soon after it was cleared takes twice as long to clear each time, so that whatever comes
/// and goes is one alarm. Invariants: at most `Limits.alarmsMax` are raised, at most `Limits.alarmHistoryMax` are
/// remembered.
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
            if let change = record(condition, now) { changes.append(change) }
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

    private mutating func record(_ condition: AlarmCondition, _ now: Moment) -> AlarmChange? {
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

/// The alarms: what is wrong with the broker, and has been.
extension Administration {
    // MARK: Looking

    /// Looks once a second at what may be wrong, and tells of what is raised and cleared.
    func watchAlarms(_ statistics: ShardStatistics, since before: ShardStatistics?, _ now: Moment) {
        let changes = alarms.observe(alarmConditions(statistics, since: before, now), at: now)
        guard !changes.isEmpty || !hasReportedAlarms else { return }
        hasReportedAlarms = true
        broker.report(changes, counts: AlarmKind.allCases.map { ($0, alarms.count(of: $0)) })
        guard events.count > 0 else { return }
        for change in changes {
            var object = JSONObject()
            object.set("alarm", change.kind.rawValue)
            object.set("change", change.isRaised ? "raised" : "cleared")
            object.set("message", change.text)
            object.set("at", Timestamp.text(now.wallMilliseconds))
            events.report(.alarm, object, now)
        }
    }

    private func alarmConditions(_ statistics: ShardStatistics, since before: ShardStatistics?, _ now: Moment) -> [AlarmCondition] {
        let condition = broker.condition
        return storeConditions(condition) + memoryConditions(condition, statistics) + clientConditions(statistics, since: before)
            + bridgeConditions() + loginConditions(condition) + certificateConditions(now)
            + (condition.cluster.map { Self.conditions(of: $0) } ?? [])
    }

    private func storeConditions(_ condition: BrokerCondition) -> [AlarmCondition] {
        var found: [AlarmCondition] = []
        switch condition.store {
        case .failed:
            found.append(
                AlarmCondition(.storeFailed, "The store cannot be written to; nothing is kept until a restart. See the log."))
        case .full:
            found.append(AlarmCondition(.storeFull, "The store has no room: messages that would have to be kept are refused."))
        case .good, nil: break
        }
        let place = Series.allCases.firstIndex { $0.name == Series.storeCommit } ?? 0
        if let milliseconds = history.ring(step: 1).newest(of: place), milliseconds >= Limits.slowCommitMilliseconds / 2 {
            found.append(
                AlarmCondition(
                    .storeSlow, "Writing to the disk takes \(Int(milliseconds)) ms; publishers wait for it.",
                    isHolding: milliseconds < Limits.slowCommitMilliseconds))
        }
        if let disk = condition.storeDisk, let isHolding = Self.isNearlyFull(disk) {
            let percent = disk.totalBytes == 0 ? 0 : Int(Double(disk.freeBytes) * 100 / Double(disk.totalBytes))
            found.append(
                AlarmCondition(
                    .diskNearlyFull, "\(disk.freeBytes >> 20) MiB are free where the store is, \(percent) % of the disk.",
                    isHolding: isHolding))
        }
        return found
    }

    /// nil for a disk with room, true for one that has hardly enough.
    private static func isNearlyFull(_ disk: BrokerCondition.Disk) -> Bool? {
        if disk.freeBytes < min(disk.totalBytes / 10, Limits.scarceDiskBytes) { return false }
        return disk.freeBytes < min(disk.totalBytes / 10 * 3 / 2, Limits.scarceDiskBytes * 2) ? true : nil
    }

    private func memoryConditions(_ condition: BrokerCondition, _ statistics: ShardStatistics) -> [AlarmCondition] {
        guard let most = condition.heapBytesMax, most > 0 else { return [] }
        var found: [AlarmCondition] = []
        if condition.isMemoryFull {
            found.append(
                AlarmCondition(
                    .memoryFull, "All of memory_limit, \(most >> 20) MiB, is in use: messages and new clients are refused."))
        }
        let percent = UInt64(max(0, statistics.heapBytes)) * 100 / most
        if percent >= Limits.clearMemoryPercent {
            found.append(
                AlarmCondition(
                    .memoryHigh, "\(percent) % of memory_limit, \(most >> 20) MiB, is in use.",
                    isHolding: percent < Limits.highMemoryPercent))
        }
        return found
    }

    private func clientConditions(_ statistics: ShardStatistics, since before: ShardStatistics?) -> [AlarmCondition] {
        var found: [AlarmCondition] = []
        func dropped(_ statistics: ShardStatistics) -> UInt64 { statistics.drops[.queueFull] &+ statistics.drops[.outputFull] }
        // Before the first look there was nothing.
        let droppedBefore = before.map(dropped) ?? 0
        if dropped(statistics) > droppedBefore {
            found.append(
                AlarmCondition(
                    .queuesFull,
                    "Messages are dropped because the queues of clients are full: \(dropped(statistics) - droppedBefore) in the last second. "
                        + "martlet ctl clients --sort=-\(ClientOrder.drops.fieldName) says whose."))
        }
        if statistics.slowClients > 0 {
            found.append(
                AlarmCondition(
                    .slowClients,
                    "\(statistics.slowClients) clients do not take what they are sent (martlet_slow_client). "
                        + "martlet ctl clients --sort=-\(ClientOrder.lag.fieldName) says who."))
        }
        return found
    }

    private func bridgeConditions() -> [AlarmCondition] {
        broker.bridges.compactMap { bridge in
            switch bridge.state {
            case .connected, .lazy, .paused, .ended: return nil
            case .connecting, .waiting, .failed:
                // Many errors begin with the address.
                let address = bridge.address.flatMap { bridge.lastError?.hasPrefix($0) ?? false ? nil : $0 }
                let place = address.map { " to \($0)" } ?? ""
                return AlarmCondition(
                    .bridgeDown, of: bridge.name, "The bridge is not connected\(place): \(bridge.lastError ?? "no answer").")
            }
        }
    }

    private func loginConditions(_ condition: BrokerCondition) -> [AlarmCondition] {
        condition.loginSources.filter(\.isDown).map { source in
            AlarmCondition(
                .loginSourceDown, of: source.name,
                "The login source \(source.name) \(source.lastFailure): whom it alone knows does not come in.")
        }
    }

    private func certificateConditions(_ now: Moment) -> [AlarmCondition] {
        broker.listeners.compactMap { listener in
            guard let certificate = listener.certificate, let end = certificate.notAfter else { return nil }
            if end <= now.wallMilliseconds {
                return AlarmCondition(
                    .certificateEnded, of: listener.name,
                    "The certificate \(certificate.name) ended on \(Timestamp.text(end)): clients do not connect.")
            }
            guard end - now.wallMilliseconds <= Limits.certificateMilliseconds else { return nil }
            return AlarmCondition(
                .certificateEnds, of: listener.name,
                "The certificate \(certificate.name) ends on \(Timestamp.text(end)), in \((end - now.wallMilliseconds) / 86_400_000) days."
            )
        }
    }

    private static func conditions(of cluster: ClusterStatus) -> [AlarmCondition] {
        var found: [AlarmCondition] = []
        if let trouble = cluster.trouble {
            found.append(AlarmCondition(.clusterDown, "This node is not ready: \(trouble)."))
        }
        if let refusal = cluster.refusal { found.append(AlarmCondition(.clusterFull, "Not stored: \(refusal).")) }
        for node in cluster.members {
            switch node.state {
            case .silent: found.append(AlarmCondition(.nodeDown, of: node.shownName, "The node has not been heard of for a while."))
            case .gone: found.append(AlarmCondition(.nodeDown, of: node.shownName, "The node is gone, and has not said goodbye."))
            case .up, .left: break
            }
            if let trouble = node.clockTrouble { found.append(AlarmCondition(.clockDiffers, of: node.shownName, "\(trouble).")) }
        }
        return found
    }

    // MARK: Answers

    func listAlarms(_ call: Call) throws(APIError) {
        let raised = alarms.raised
        let rows =
            switch call.text("state") ?? "active" {
            case "active": raised
            case "cleared": Array(alarms.history.reversed())
            default: raised + alarms.history.reversed()
            }
        let limit = call.integer("limit") ?? Limits.alarmRows
        answer(call, page: rows.prefix(limit).map { Self.alarmResource.json($0) }, cursor: nil, count: rows.count) { object in
            object.set("active", raised.count)
        }
    }

    func acknowledgeAlarm(_ call: Call) throws(APIError) {
        call.target = call.path["number"]
        guard let number = call.path["number"].flatMap({ Int($0) }),
            let alarm = alarms.acknowledge(number, by: call.who.name ?? call.who.means.rawValue, at: call.startedAt)
        else { throw .notFound("alarm") }
        call.answer(Self.alarmResource.json(alarm))
    }

    static let alarmResource = Resource<Alarm>(
        "Alarm",
        [
            .integer("number", as: .integer(1...Int.max), help: "Counted from 1 since the start of the broker.", \.number),
            .text("name", as: .choice(AlarmKind.allCases.map(\.rawValue)), column: "ALARM", \.subject.kind.rawValue),
            .textOrNull("of", help: "The bridge, listener or node; null where there is one alone.") {
                $0.subject.name.isEmpty ? nil : $0.subject.name
            },
            .text("severity", as: .choice(["warning", "critical"])) { $0.subject.kind.isCritical ? "critical" : "warning" },
            .text("message", \.message),
            .time("raised_at", column: "RAISED (UTC)", \.raisedAt),
            .timeOrNull("cleared_at", column: "CLEARED (UTC)", help: "Null while it lasts.", \.clearedAt),
            .timeOrNull("acknowledged_at") { $0.acknowledgement?.at },
            .textOrNull("acknowledged_by", column: "ACKNOWLEDGED BY") { $0.acknowledgement?.who },
        ])
}

extension Limits {
    /// Alarms that are raised, or about to be: others are not looked at. Bytes: 4 KiB each at most.
    static let alarmsMax = 256

    /// Alarms that were cleared and are remembered: the oldest goes for the next one. Bytes: 4 KiB each at most.
    static let alarmHistoryMax = 1000

    /// Rows of alarms where nothing is said.
    static let alarmRows = 100

    /// How long all has to be well before an alarm is cleared, in milliseconds.
    static let alarmQuietMilliseconds: UInt64 = 10_000

    /// What comes back so soon after it was cleared, in milliseconds, takes twice as long to clear each time, but never
    /// longer than this.
    static let alarmReturnMilliseconds: UInt64 = 10 * 60_000

    /// From how many percent of `memory_limit` on an alarm is raised.
    static let highMemoryPercent: UInt64 = 80

    /// Below how many percent of it the alarm is cleared.
    static let clearMemoryPercent: UInt64 = 70

    /// How long a commit takes that is slow, of the slowest of a hundred, in milliseconds; half of it is quick again.
    static let slowCommitMilliseconds = 1000.0

    /// Free bytes that are few where the store is, if they are less than a tenth of the disk too; twice as many, and
    /// more than 15 %, are enough again.
    static let scarceDiskBytes: UInt64 = 1 << 30

    /// How long before a certificate ends an alarm is raised, in milliseconds: 14 days.
    static let certificateMilliseconds: UInt64 = 14 * 86_400_000
}
