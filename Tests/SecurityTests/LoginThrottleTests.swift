import MQTTCodec
import MartletTestKit
import Testing

@testable import Security

@Suite struct LoginThrottleTests {
    private let throttle = LoginThrottle()

    @Test func `the first failures cost nothing, and then the wait doubles up to a limit`() {
        let delays = (0..<12).map { failed("10.0.0.1", "c", now: 1000 + $0).delayMilliseconds }
        #expect(delays == [0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000])
        for step in 0..<1000 { _ = failed("10.0.0.1", "c", now: 2000 + UInt64(step)) }
        #expect(failed("10.0.0.1", "c", now: 4000).delayMilliseconds == 8000)
    }

    @Test func `an address is slowed down under changing identifiers, and an identifier from changing addresses`() {
        for number in 0..<3 { _ = failed("10.0.0.1", "c\(number)", now: 0) }
        #expect(failed("10.0.0.1", "other", now: 0).delayMilliseconds == 250)
        #expect(failed("10.0.0.2", "c1", now: 0).delayMilliseconds == 0)
        for number in 0..<3 { _ = failed("10.0.1.\(number)", "victim", now: 0) }
        #expect(failed("10.0.1.9", "victim", now: 0).delayMilliseconds == 250)
    }

    @Test func `somebody is reported once, and again after having been forgiven`() {
        var reports: [String] = []
        for step in 0..<20 {
            if let report = failed("10.0.0.1", "c", now: UInt64(step)).report {
                reports.append(report)
            }
        }
        #expect(
            reports == [
                "Repeated failed logins from address 10.0.0.1 and with client identifier c; answers to further failures are delayed."
            ])
        let later: UInt64 = 3_600_000
        for step in UInt64(0)..<3 {
            #expect(failed("10.0.0.1", "c", now: later + step).delayMilliseconds == 0)
        }
        #expect(failed("10.0.0.1", "c", now: later + 4).report != nil)
    }

    @Test func `a login that succeeds clears its client, and only one failure of its address`() {
        for _ in 0..<6 { _ = failed("10.0.0.1", "c", now: 0) }
        throttle.succeeded(subject("10.0.0.1", "c"), now: 0)
        #expect(failed("10.0.0.2", "c", now: 0).delayMilliseconds == 0)
        #expect(failed("10.0.0.1", "d", now: 0).delayMilliseconds == 1000)
    }

    @Test func `many addresses do not make it forget one that goes on`() {
        var last: UInt64 = 0
        for step in 0..<100_000 {
            let now = UInt64(step)
            _ = failed("10.1.\(step)", "c\(step)", now: now)
            if step.isMultiple(of: 50) {
                last = failed("10.0.0.1", "attacker", now: now).delayMilliseconds
            }
        }
        #expect(last == 8000)
    }

    private func failed(_ address: String, _ identifier: EncodedString, now: UInt64) -> LoginThrottle.Verdict {
        throttle.failed(subject(address, identifier), address: address, clientIdentifier: identifier, now: now)
    }

    private func subject(_ address: String, _ identifier: EncodedString) -> LoginSubject {
        throttle.subject(network: address, site: address, userName: nil, clientIdentifier: identifier)
    }
}
