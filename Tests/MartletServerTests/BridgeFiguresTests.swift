import BrokerCore
import MQTTCodec
import Testing

@testable import Federation
@testable import MartletServer
@testable import ServerLoops

/// What a bridge tells of itself below `$SYS`, and how fast it is.
@Suite struct BridgeFiguresTests {
    private func status(_ name: String = "b", _ change: (inout BridgeReport) -> Void = { _ in }) -> BridgeStatus {
        var report = BridgeReport()
        change(&report)
        return BridgeStatus(
            name: name, connection: 1, clientIdentifier: "host.b", report: report, address: "h:1883", backlog: SessionBacklog(),
            rates: BridgeRates(out: 2.4, into: 0))
    }

    @Test func `values are told when they change`() {
        var figures = BridgeFigures()
        let first = figures.changes(to: status())
        #expect(first.first?.topic == "$SYS/broker/bridges/b/state" && first.first?.value == "waiting")
        #expect(first.contains { $0 == ("$SYS/broker/bridges/b/load/sent", "2") })
        #expect(figures.changes(to: status()).isEmpty)
        let next = figures.changes(to: status { ($0.state, $0.messagesOut) = (.idle, 7) })
        #expect(
            next.map { "\($0.topic) \($0.value)" } == ["$SYS/broker/bridges/b/state lazy", "$SYS/broker/bridges/b/messages/sent 7"])
        #expect(figures.systemTopics(name: "b").count == first.count)
    }

    @Test func `a name is one level of a topic`() {
        var figures = BridgeFigures()
        #expect(figures.changes(to: status("a/+ #")).first?.topic == "$SYS/broker/bridges/a%2F%2B %23/state")
    }

    @Test func `rates are of the time since they were asked for last`() {
        var (figures, report) = (BridgeFigures(), BridgeReport())
        #expect(figures.rates(of: report, now: 1000) == BridgeRates())
        (report.messagesOut, report.messagesIn) = (30, 3)
        #expect(figures.rates(of: report, now: 2500) == BridgeRates(out: 20, into: 2))
        report.messagesOut = 40
        #expect(figures.rates(of: report, now: 2600) == BridgeRates(out: 20, into: 2), "too soon to tell")
        #expect(figures.rates(of: report, now: 3500) == BridgeRates(out: 10, into: 0))
    }
}
