import Testing

@testable import MartletServer

@Suite struct ServiceManagerTests {
    private func manager(_ variables: [String: String]) -> ServiceManager { ServiceManager { variables[$0] } }

    @Test func `the watchdog is kept when it is asked for, and of us`() {
        #expect(manager([:]).watchdogMilliseconds == nil)
        #expect(manager(["WATCHDOG_USEC": "180000000"]).watchdogMilliseconds == nil)
        let asked = ["NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "180000000"]
        #expect(manager(asked).watchdogMilliseconds == 180_000)
        #expect(manager(asked.merging(["WATCHDOG_PID": "1"]) { $1 }).watchdogMilliseconds == nil)
        #expect(manager(asked.merging(["WATCHDOG_USEC": "often"]) { $1 }).watchdogMilliseconds == nil)
        #expect(manager(asked.merging(["NOTIFY_SOCKET": "vsock:2:1"]) { $1 }).watchdogMilliseconds == nil)
    }
}
