internal import EpollLoop
public import MQTTCodec

/// Slows down whoever keeps failing to log in, by address and by client identifier.
///
/// The answer to a failure waits the longer the more failures went before: nothing for the first few, then 250 ms, 500 ms, … 8 s. An answer
/// that lets a client in never waits: many clients may share an address, and one of them with an outdated password must not lock out the
/// others. A minute without failure forgives half of them. Shared by all loops; a failure costs a lock and two short searches, and a success
/// the same. Bounded, see `ThrottleTable`.
public final class LoginThrottle: @unchecked Sendable {
    /// What is to be done about a failure.
    public struct Verdict: Sendable, Equatable {
        /// How long the client's answer has to wait, in milliseconds.
        public let delayMilliseconds: UInt64
        /// A line for the log, the first time that somebody is slowed down; nil otherwise.
        public let report: String?
    }

    private struct Place: ThrottleEntry {
        var lastUsedAt: UInt64 = 0
        var failures: UInt32 = 0
        var isReported = false
    }

    private let lock = Lock()
    private var places = ThrottleTable<Place>()

    public init() {}

    /// A login has failed. `now` is in milliseconds of any monotonic clock.
    public func failed(address: String, clientIdentifier: EncodedString, now: UInt64) -> Verdict {
        lock.withLock {
            let byAddress = count(key(address: address), now)
            let byClient = count(key(clientIdentifier: clientIdentifier), now)
            let delay = Self.delay(after: max(places[byAddress].failures, places[byClient].failures))
            guard delay > 0 else { return Verdict(delayMilliseconds: 0, report: nil) }
            var subjects: [String] = []
            if report(byAddress) { subjects.append("from address \(address)") }
            if report(byClient) { subjects.append("with client identifier \(clientIdentifier)") }
            guard !subjects.isEmpty else { return Verdict(delayMilliseconds: delay, report: nil) }
            return Verdict(
                delayMilliseconds: delay,
                report: "Repeated failed logins \(subjects.joined(separator: " and ")); answers to further failures are delayed.")
        }
    }

    /// A login has succeeded: the client's own failures are forgotten, and one of its address's is forgiven.
    public func succeeded(address: String, clientIdentifier: EncodedString) {
        lock.withLock {
            if let place = places.find(key(clientIdentifier: clientIdentifier)) { places[place] = Place() }
            if let place = places.find(key(address: address)), places[place].failures > 0 { places[place].failures -= 1 }
        }
    }

    /// One more failure at a key's place, after those that time has forgiven.
    private func count(_ key: UInt64, _ now: UInt64) -> Int {
        let place = places.place(of: key)
        let minutes = (now &- places[place].lastUsedAt) / Limits.forgivenessMilliseconds
        places[place].failures = minutes >= 32 ? 0 : places[place].failures >> UInt32(minutes)
        if places[place].failures == 0 { places[place].isReported = false }
        places[place].failures = min(places[place].failures + 1, Limits.failuresMax)
        places[place].lastUsedAt = now
        return place
    }

    /// Whether the place is over the limit and that has not been said yet.
    private func report(_ place: Int) -> Bool {
        guard Self.delay(after: places[place].failures) > 0, !places[place].isReported else { return false }
        places[place].isReported = true
        return true
    }

    private func key(address: String) -> UInt64 { places.key(of: address, kind: 0) }

    private func key(clientIdentifier: EncodedString) -> UInt64 { places.key(of: clientIdentifier, kind: 1) }

    private static func delay(after failures: UInt32) -> UInt64 {
        guard failures > Limits.failuresFree else { return 0 }
        return min(250 << UInt64(min(failures - Limits.failuresFree - 1, 16)), Limits.delayMillisecondsMax)
    }
}
