internal import ClientCore

/// Which subscriptions hold their client: their consumers take less than comes.
///
/// A subscription holds when its backlog has been full for some seconds, and when it has had for as long the first message of QoS 1 or 2 that is
/// not acknowledged while many more stand behind: then the server may send no others. A value of the loop's thread; times are those of its clock.
struct HoldingSubscriptions {
    /// Since when backlogs are full, by the number of the subscription.
    private var fullSince: [UInt32: UInt64] = [:]
    /// The message of QoS 1 or 2 that is to be acknowledged next, and since when it is.
    private var first: (token: AcknowledgementToken, since: UInt64)?
    /// Whether so many stand behind it that the server may wait.
    private var hasMany = false
    /// The subscriptions that have not acknowledged the first; nil before they were asked.
    private var firstOwners: [UInt32]?
    /// Those that hold the client, as they were told last, in their order.
    private(set) var told: [UInt32] = []

    mutating func becameFull(_ number: UInt32, now: UInt64) {
        if fullSince[number] == nil { fullSince[number] = now }
    }

    /// Its consumer has taken something, or it has ended.
    mutating func hasRoom(_ number: UInt32) { fullSince[number] = nil }

    /// What is to be acknowledged next, nil for nothing, and how many messages are not acknowledged. At the end of each turn.
    mutating func isFirst(_ token: AcknowledgementToken?, count: Int, now: UInt64) {
        hasMany = count >= Limits.holdingMessagesMin
        guard first?.token != token else { return }
        first = token.map { ($0, now) }
        firstOwners = nil
    }

    /// When `look` finds something new, unless it changes before; nil for never.
    var deadline: UInt64? {
        var earliest = UInt64.max
        for (number, since) in fullSince where !told.contains(number) { earliest = min(earliest, since) }
        if let first, hasMany, firstOwners == nil { earliest = min(earliest, first.since) }
        return earliest == .max ? nil : earliest + Limits.holdingMilliseconds
    }

    /// Looks which hold the client now. Returns whether those are others than were told last.
    ///
    /// - Parameter owners: the subscriptions whose consumers have not settled a message.
    mutating func look(now: UInt64, owners: (AcknowledgementToken) -> [UInt32]) -> Bool {
        if told.isEmpty, (deadline ?? .max) > now { return false }
        var holding = fullSince.filter { $0.value + Limits.holdingMilliseconds <= now }.map(\.key)
        if let first, hasMany, first.since + Limits.holdingMilliseconds <= now {
            let found = firstOwners ?? owners(first.token)
            firstOwners = found
            holding += found
        }
        let found = Set(holding).sorted()
        defer { told = found }
        return found != told
    }
}
