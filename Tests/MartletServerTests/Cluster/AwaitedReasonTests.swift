import Testing

@testable import ClusterGateway
@testable import MartletServer

/// What a node waits for, told when it takes long.
@Suite struct AwaitedReasonTests {
    @Test func `a reason is given when nothing has been carried for a while, and begins anew when messages were`() {
        var awaited = AwaitedReason()
        let looks: [(String?, UInt64, String?)] = [
            ("a", 1000, nil), ("b", 5999, nil), ("b", 6000, "b"), ("c", 7000, "c"), (nil, 8000, nil), ("c", 9000, nil),
            ("c", 14_000, "c"),
        ]
        for (reason, now, given) in looks { #expect(awaited.look(reason, now: now) == given) }
    }
}
