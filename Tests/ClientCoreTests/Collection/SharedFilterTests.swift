import ClientCore
import MQTTCodec
import Testing

@Suite struct SharedFilterTests {
    @Test func `where Retain As Published was asked for, a message with RETAIN is also for others who want the filter`() {
        var table = SubscriptionTable(chance: 0)
        let plain = table.add(["a/+"], SubscriptionOptions(maximumQoS: .atLeastOnce))
        let asPublished = table.add(["a/+"], SubscriptionOptions(maximumQoS: .atLeastOnce, retainAsPublished: true))
        #expect(table.audience(of: "a/b", number: asPublished, isRetained: true) == [plain, asPublished])
        #expect(table.audience(of: "a/b", number: plain, isRetained: true) == [plain])
    }
}
