import MQTTCodec
import MartletTestKit
import Testing

@testable import Security

/// In which order passwords are checked, and what a flood of wrong ones costs others.
@Suite struct CheckQueueTests {
    private static let good = LoginFlood.Client(network: "n", site: "s", userName: "good", identifier: "good")

    /// Floods beside which a client comes that has never been here.
    enum Flood: String, CaseIterable {
        case oneAddress
        case manyAddressesOfASite
        case manySites
        case oneUserFromTheSameAddress
        case someUsersFromTheSameAddress
        case someUsersFromTheSameSite
        case anybodyFromTheSameAddress
        case theSameUserFromElsewhere

        func attacker(_ number: Int) -> LoginFlood.Client {
            var client = LoginFlood.Client(
                network: "n\(number)", site: "s\(number)", userName: CheckQueueTests.text("u\(number)"),
                identifier: CheckQueueTests.text("c\(number)"))
            switch self {
            case .oneAddress: (client.network, client.site) = ("n1", "s1")
            case .manyAddressesOfASite: (client.network, client.site) = ("n\(number % 250)", "s1")
            case .manySites:
                (client.network, client.site) = ("n\(number % 200)", "s\(number % 200)")
                client.userName = CheckQueueTests.text("u\(number % 20)")
            case .oneUserFromTheSameAddress: (client.network, client.site, client.userName) = ("n", "s", "u")
            case .someUsersFromTheSameAddress:
                (client.network, client.site, client.userName) = ("n", "s", CheckQueueTests.text("u\(number % 20)"))
            case .someUsersFromTheSameSite:
                (client.network, client.site, client.userName) = ("n\(number % 250)", "s", CheckQueueTests.text("u\(number % 20)"))
            case .anybodyFromTheSameAddress: (client.network, client.site) = ("n", "s")
            case .theSameUserFromElsewhere: (client.network, client.site, client.userName) = ("n1", "s1", "good")
            }
            return client
        }
    }

    @Test(arguments: Flood.allCases, [0, 500, 10_000])
    func `beside a flood of wrong passwords a login takes at most a second more`(kind: Flood, after milliseconds: UInt64) {
        let flood = LoginFlood(attackers: 200, attacker: kind.attacker)
        flood.run(for: milliseconds)
        let taken = flood.logIn(Self.good)
        #expect(taken ?? .max <= LoginFlood.checkMilliseconds + 1000)
    }

    @Test(arguments: [0, 500, 10_000])
    func `so it does beside one in its own name and from its own address, for a client that has logged in before`(
        after milliseconds: UInt64
    ) {
        let flood = LoginFlood(attackers: 200) { number in
            LoginFlood.Client(network: "n", site: "s", userName: "good", identifier: Self.text("c\(number)"))
        }
        flood.throttle.succeeded(
            flood.throttle.subject(network: "n", site: "s", userName: "good", clientIdentifier: "good"), now: 0)
        flood.run(for: milliseconds)
        #expect(flood.logIn(Self.good) ?? .max <= 2 * LoginFlood.checkMilliseconds)
    }

    @Test func `a network that keeps failing has two passwords a second checked`() {
        let flood = LoginFlood(attackers: 200, attacker: Flood.oneAddress.attacker)
        flood.run(for: 10_000)
        let before = flood.checksMade
        flood.run(for: 60_000)
        #expect(flood.checksMade - before <= 121)
    }

    @Test func `a client that has logged in before is throttled as others are once it fails itself`() {
        let throttle = LoginThrottle()
        let subject = throttle.subject(network: "n", site: "s", userName: "u", clientIdentifier: "c")
        throttle.succeeded(subject, now: 0)
        #expect(throttle.standing(of: subject, now: 0).rank == 0)
        for _ in 0..<4 { _ = throttle.failed(subject, address: "n", clientIdentifier: "c", now: 0) }
        throttle.began(subject, now: 1)
        #expect(throttle.standing(of: subject, now: 1).rank > 0)
        #expect(throttle.standing(of: subject, now: 1).mayBeginAt > 1)
        throttle.succeeded(subject, now: 2)
        #expect(throttle.standing(of: subject, now: 2).rank == 0)
    }

    @Test func `no network has more than its part of the places, and whoever has failed most gives way`() {
        let throttle = LoginThrottle()
        var queue = CheckQueue(throttle: throttle, countMax: 3, countOfNetworkMax: 2)
        func check(_ network: String, _ user: EncodedString = "u") -> PasswordCheck {
            PasswordCheck(
                of: throttle.subject(network: network, site: network, userName: user, clientIdentifier: "c"), work: {}, refuse: {})
        }
        let (first, second, third) = (check("a"), check("a"), check("a"))
        #expect(queue.add(first, now: 0) == nil)
        #expect(queue.add(second, now: 0) == nil)
        #expect(queue.add(third, now: 0) === first, "among equals the one that has waited longest")
        _ = throttle.failed(third.subject, address: "a", clientIdentifier: "c", now: 0)
        let failing = check("a")
        #expect(queue.add(failing, now: 0) === failing)
        #expect(queue.add(check("b", "v"), now: 0) == nil)
        #expect(queue.add(check("c", "v"), now: 0) === second)
        #expect(queue.count == 3)
    }

    static func text(_ text: String) -> EncodedString { EncodedString(text) ?? "" }
}
