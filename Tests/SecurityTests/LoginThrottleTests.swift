import MQTTCodec
import MartletTestKit
import Testing

@testable import Security

@Suite struct LoginThrottleTests {
    private let throttle = LoginThrottle()

    @Test func `the first failures cost nothing, and then the wait doubles up to a limit`() {
        let delays = (0..<12).map { throttle.failed(address: "10.0.0.1", clientIdentifier: "c", now: 1000 + $0).delayMilliseconds }
        #expect(delays == [0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000])
        for step in 0..<1000 { _ = throttle.failed(address: "10.0.0.1", clientIdentifier: "c", now: 2000 + UInt64(step)) }
        #expect(throttle.failed(address: "10.0.0.1", clientIdentifier: "c", now: 4000).delayMilliseconds == 8000)
    }

    @Test func `an address is slowed down under changing identifiers, and an identifier from changing addresses`() {
        for number in 0..<3 { _ = throttle.failed(address: "10.0.0.1", clientIdentifier: "c\(number)", now: 0) }
        #expect(throttle.failed(address: "10.0.0.1", clientIdentifier: "other", now: 0).delayMilliseconds == 250)
        #expect(throttle.failed(address: "10.0.0.2", clientIdentifier: "c1", now: 0).delayMilliseconds == 0)
        for number in 0..<3 { _ = throttle.failed(address: "10.0.1.\(number)", clientIdentifier: "victim", now: 0) }
        #expect(throttle.failed(address: "10.0.1.9", clientIdentifier: "victim", now: 0).delayMilliseconds == 250)
    }

    @Test func `somebody is reported once, and again after having been forgiven`() {
        var reports: [String] = []
        for step in 0..<20 {
            if let report = throttle.failed(address: "10.0.0.1", clientIdentifier: "c", now: UInt64(step)).report {
                reports.append(report)
            }
        }
        #expect(
            reports == [
                "Repeated failed logins from address 10.0.0.1 and with client identifier c; answers to further failures are delayed."
            ])
        let later: UInt64 = 3_600_000
        for step in UInt64(0)..<3 {
            #expect(throttle.failed(address: "10.0.0.1", clientIdentifier: "c", now: later + step).delayMilliseconds == 0)
        }
        #expect(throttle.failed(address: "10.0.0.1", clientIdentifier: "c", now: later + 4).report != nil)
    }

    @Test func `a login that succeeds clears its client, and only one failure of its address`() {
        for _ in 0..<6 { _ = throttle.failed(address: "10.0.0.1", clientIdentifier: "c", now: 0) }
        throttle.succeeded(address: "10.0.0.1", clientIdentifier: "c")
        #expect(throttle.failed(address: "10.0.0.2", clientIdentifier: "c", now: 0).delayMilliseconds == 0)
        #expect(throttle.failed(address: "10.0.0.1", clientIdentifier: "d", now: 0).delayMilliseconds == 1000)
    }

    @Test func `many addresses do not make it forget one that goes on`() {
        var last: UInt64 = 0
        for step in 0..<100_000 {
            let now = UInt64(step)
            _ = throttle.failed(address: "10.1.\(step)", clientIdentifier: "c\(step)", now: now)
            if step.isMultiple(of: 50) {
                last = throttle.failed(address: "10.0.0.1", clientIdentifier: "attacker", now: now).delayMilliseconds
            }
        }
        #expect(last == 8000)
    }
}
