import MQTTCodec

@testable import Security

/// Attackers that log in with wrong passwords, all at once and again as soon as they are answered, and a client that
/// has the right one; two workers and a simulated clock.
final class LoginFlood {
    struct Client {
        var network: String
        var site: String
        var userName: EncodedString
        var identifier: EncodedString
    }

    private enum Event {
        case arrival(Int)
        case end(PasswordCheck, Int?)
    }

    let throttle = LoginThrottle()
    private(set) var now: UInt64 = 1000
    private(set) var checksMade = 0
    private let attacker: (Int) -> Client
    private var queue: CheckQueue
    private var events: [(at: UInt64, event: Event)] = []
    private var owners: [ObjectIdentifier: (check: PasswordCheck, attempt: Int?)] = [:]
    private var attempts = 0
    private var free = 2
    private var goodEnd: UInt64?
    private var isGoodRefused = false

    /// - Parameter attacker: who comes with an attempt of this number.
    init(attackers: Int, attacker: @escaping (Int) -> Client) {
        self.attacker = attacker
        queue = CheckQueue(throttle: throttle, countMax: 1000, countOfNetworkMax: 500)
        for number in 0..<attackers { events.append((now, .arrival(number))) }
        attempts = attackers
    }

    /// Lets the flood go on for that long, in milliseconds.
    func run(for duration: UInt64) { run(until: now + duration) { false } }

    /// How long the login of a client takes that knows its password, in milliseconds; nil when it is refused, or takes
    /// longer than a minute.
    func logIn(_ client: Client) -> UInt64? {
        let start = now
        goodEnd = nil
        isGoodRefused = false
        submit(client, attempt: nil)
        run(until: now + 60_000) { self.goodEnd != nil || self.isGoodRefused }
        if goodEnd != nil { throttle.succeeded(subject(of: client), now: now) }
        return goodEnd.map { $0 - start }
    }

    private func run(until end: UInt64, _ isOver: () -> Bool) {
        while !isOver() {
            while free > 0, let check = queue.takeNext(now: now) {
                free -= 1
                events.append(
                    (now + Self.checkMilliseconds, .end(check, owners.removeValue(forKey: ObjectIdentifier(check))?.attempt)))
            }
            let due = free > 0 ? queue.nextDue ?? .max : .max
            let next = min(events.map(\.at).min() ?? .max, max(due, now + 1))
            guard next <= end else {
                now = end
                return
            }
            now = next
            let ready = events.filter { $0.at <= next }
            events.removeAll { $0.at <= next }
            for (_, event) in ready { happened(event) }
        }
    }

    private func happened(_ event: Event) {
        switch event {
        case .arrival(let attempt): submit(attacker(attempt), attempt: attempt)
        case .end(_, let attempt?):
            checksMade += 1
            free += 1
            let client = attacker(attempt)
            let verdict = throttle.failed(
                subject(of: client), address: client.network, clientIdentifier: client.identifier, now: now)
            comeAgain(after: verdict.delayMilliseconds)
        case .end(_, nil):
            free += 1
            goodEnd = now
        }
    }

    private func submit(_ client: Client, attempt: Int?) {
        let check = PasswordCheck(of: subject(of: client), work: {}, refuse: {})
        owners[ObjectIdentifier(check)] = (check, attempt)
        guard let refused = queue.add(check, now: now) else { return }
        if owners.removeValue(forKey: ObjectIdentifier(refused))?.attempt == nil {
            isGoodRefused = true
        } else {
            comeAgain(after: 0)
        }
    }

    private func comeAgain(after delay: UInt64) {
        events.append((now + delay + Self.roundTripMilliseconds, .arrival(attempts)))
        attempts += 1
    }

    private func subject(of client: Client) -> LoginSubject {
        throttle.subject(
            network: client.network, site: client.site, userName: client.userName, clientIdentifier: client.identifier)
    }

    /// What a check of an Argon2 hash takes.
    static let checkMilliseconds: UInt64 = 130
    private static let roundTripMilliseconds: UInt64 = 20
}
