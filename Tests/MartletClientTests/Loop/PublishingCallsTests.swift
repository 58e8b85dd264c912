import ClientCore
import Testing

@testable import MartletClient

@Suite struct PublishingCallsTests {
    private func call(_ payload: Payload) -> PublishCall { PublishCall(Publication("t", payload)) }

    @Test func `what waits for a connection is bounded in messages and in bytes`() {
        var calls = PublishingCalls()
        var taken = ["12345", "1234", "12345"].map {
            calls.waitForConnection(call(Payload($0)), ClientSettings.QueueLimits(messages: 9, bytes: 12))
        }
        #expect(taken == [true, true, false])
        var released: [Payload] = []
        calls.releaseOffline { released.append($0.publication.payload) }
        #expect(released == ["12345", "1234"])
        // One may always wait, and what has left takes no room.
        taken = ["larger than the limit", "1"].map {
            calls.waitForConnection(call(Payload($0)), ClientSettings.QueueLimits(messages: 9, bytes: 12))
        }
        #expect(taken == [true, false])
    }

    @Test func `calls that are blocked have their turn in order, and those that are over have none`() {
        var calls = PublishingCalls()
        let blocked = (1...5).map { call(Payload("\($0)")) }
        for call in blocked { calls.block(call) }
        blocked[1].call.complete(.failure(.cancelled))
        var released: [Payload] = []
        while let call = calls.popBlocked(ClientSettings.QueueLimits()) { released.append(call.publication.payload) }
        #expect(released == ["1", "3", "4", "5"])
        #expect(!calls.hasBlocked)
    }

    @Test func `calls that are cancelled leave neither memory nor a place that is taken`() {
        var calls = PublishingCalls()
        let limits = ClientSettings.QueueLimits(messages: 2)
        for _ in 1...10 {
            let offline = call("1")
            let isTaken = calls.waitForConnection(offline, limits)
            #expect(isTaken)
            let blocked = call("2")
            calls.block(blocked)
            for call in [offline, blocked] {
                call.call.complete(.failure(.cancelled))
                calls.cancelled()
            }
        }
        #expect(calls.unsentCount <= 1)
    }

    @Test func `of the order of calls only what may be dropped is kept`() {
        var calls = PublishingCalls()
        for number in 1...1000 as ClosedRange<UInt64> {
            calls.add(call("x"), PublishTicket(number: number), tracksOrder: true)
            if number > 10 { _ = calls.remove(PublishTicket(number: number - 10)) }
        }
        #expect(calls.orderedCount == 10)
        #expect(calls.popOldest() == PublishTicket(number: 991))
    }
}
