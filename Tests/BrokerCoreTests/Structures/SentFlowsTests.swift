import MQTTCodec
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What follows from the steps of QoS 2 flows that the log has.
@Suite struct SentFlowsTests {
    private func name(_ number: UInt64) -> MessageName { MessageName(partition: 1, sequence: number, index: 2) }

    private func settled(_ steps: [(FlowStep.Kind, UInt16)]) -> SentFlows {
        var flows = SentFlows()
        let numbered = steps.enumerated().map { number, step in
            FlowStep(step.0, step.1, at: FlowStep.Place(epoch: 1, number: UInt64(number)))
        }
        // In whatever order they are read.
        for step in numbered.reversed() { flows.record(step) }
        flows.settle { _ in false }
        return flows
    }

    @Test func `what was sent and not acknowledged is unfinished, in the order in which it was sent`() {
        let flows = settled([(.sent(name(5)), 9), (.sent(name(4)), 2), (.sent(name(6)), 3), (.acknowledged, 2)])
        #expect(flows.unfinished.map(\.name) == [name(5), name(6)] && flows.unfinished.map(\.packetIdentifier) == [9, 3])
        #expect(flows.released == [2] && flows.known == [name(4), name(5), name(6)])
    }

    @Test func `an identifier that is used again says that what had it before is done`() {
        let flows = settled([
            (.sent(name(1)), 1), (.acknowledged, 1), (.sent(name(2)), 1), (.sent(name(3)), 2), (.sent(name(4)), 2),
        ])
        #expect(flows.unfinished.map(\.name) == [name(2), name(4)] && flows.released.isEmpty)
        #expect(flows.known == [name(1), name(2), name(3), name(4)])
    }

    @Test func `what has no name or is not there any more is to be released`() {
        var flows = settled([(.sent(.none), 1), (.sent(name(3)), 3), (.acknowledged, 4)])
        #expect(flows.unfinished.map(\.packetIdentifier) == [3] && flows.released == [1, 4] && !flows.known.contains(.none))
        flows.forget(flows.unfinished[0])
        #expect(flows.unfinished.isEmpty && flows.released == [1, 4, 3])
    }

    @Test func `a flow that has ended needs no release, and its identifier is free`() {
        var flows = SentFlows()
        func record(_ kind: FlowStep.Kind, _ identifier: UInt16, _ number: UInt64, finished: [UInt16] = []) {
            var step = FlowStep(kind, identifier, at: FlowStep.Place(epoch: 1, number: number))
            step.finished = finished
            flows.record(step)
        }
        record(.sent(name(1)), 1, 1)
        record(.sent(name(2)), 2, 2)
        record(.acknowledged, 1, 3)
        record(.sent(name(3)), 1, 4, finished: [1])
        record(.acknowledged, 2, 5)
        // Identifier 1 has another message by now, which has not ended.
        record(.sent(name(4)), 4, 6, finished: [2, 1])
        flows.settle { _ in false }
        #expect(flows.unfinished.map(\.packetIdentifier) == [1, 4] && flows.released.isEmpty)
        #expect(flows.known == [name(1), name(2), name(3), name(4)])
    }

    // MARK: Holders

    @Test func `what a share group has dispatched is whose it was dispatched or sent last, in whatever order that is read`() {
        let (first, second) = (name(1).dispatched(by: 0), name(2).dispatched(by: 0))
        let steps: [(FlowStep.Kind, EncodedString, UInt64)] = [
            (.dispatched(first), "one", 1), (.dispatched(second), "one", 2), (.sent(first), "two", 3),
            (.dispatched(second), "two", 4),
            (.dispatched(second), "one", 5), (.sent(name(3)), "two", 6),
        ]
        for order in [steps, steps.reversed()] {
            var holders = DispatchHolders()
            for (kind, session, number) in order {
                let step = FlowStep(kind, 1, at: FlowStep.Place(epoch: 1, number: number))
                session.bytes.withUnsafeBytes { holders.record(step, of: $0) }
            }
            #expect(holders.contains(first) && holders.contains(second) && !holders.contains(name(3)))
            #expect(holders.isOthers(than: "one")(first) && !holders.isOthers(than: "one")(second))
            #expect(!holders.isOthers(than: "two")(first) && holders.isOthers(than: "two")(second))
            // Of what nobody knows nobody else has it.
            #expect(!holders.isOthers(than: "two")(name(4).dispatched(by: 0)))
            holders.recordPassedOn(second)
            #expect(holders.isPassedOn(second) && !holders.isPassedOn(first) && holders.isOthers(than: "one")(second))
        }
    }

    @Test func `what is another session's by now was not dispatched this one`() {
        var flows = SentFlows()
        let (first, second) = (name(1).dispatched(by: 0), name(1).dispatched(by: 1))
        for (number, kind) in [FlowStep.Kind.dispatched(first), .dispatched(second)].enumerated() {
            flows.record(FlowStep(kind, 0, at: FlowStep.Place(epoch: 1, number: UInt64(number))))
        }
        flows.settle { $0 == first }
        #expect(flows.takeDispatched(name(1)) == [second])
    }

    @Test func `what a client has sent says nothing of what it is sent`() {
        let flows = settled([(.received(digest: 1), 1), (.released, 2), (.mark, 0)])
        #expect(flows.unfinished.isEmpty && flows.released.isEmpty && flows.known.isEmpty)
    }

    // MARK: Names

    @Test func `a name tells partition, record and place`() {
        var seen: Set<MessageName> = []
        for partition in [0, 1, 63] {
            for sequence: UInt64 in [1, 2, 1 << 35] {
                for index in [0, 1, 0xf_ffff] {
                    #expect(seen.insert(MessageName(partition: partition, sequence: sequence, index: index)).inserted)
                }
            }
        }
        #expect(!seen.contains(.none))
    }

    @Test func `of a message that got another identifier since, the first one says nothing`() {
        let again: [(FlowStep.Kind, UInt16)] = [(.sent(name(1)), 5), (.sent(name(1)), 3)]
        #expect(settled(again).unfinished == [SentFlows.Unfinished(name: name(1), packetIdentifier: 3)])
        let flows = settled(again + [(.acknowledged, 3)])
        #expect(flows.unfinished.isEmpty && flows.released == [3])
        #expect(settled([(.sent(.none), 5), (.sent(.none), 3)]).released == [3, 5])
    }

    @Test func `what was dispatched is asked for unless it was sent, and is another message than what a subscription brings`() {
        var flows = settled([
            (.dispatched(name(1).dispatched(by: 3)), 0), (.dispatched(name(1).dispatched(by: 0)), 0),
            (.dispatched(name(2).dispatched(by: 0)), 0),
            (.sent(name(2).dispatched(by: 0)), 4), (.sent(name(1)), 5),
        ])
        #expect(flows.dispatched == [name(1): [name(1).dispatched(by: 0), name(1).dispatched(by: 3)]])
        #expect(flows.unfinished.map(\.name) == [name(2).dispatched(by: 0), name(1)])
        #expect(
            flows.takeDispatched(name(2)).isEmpty && flows.takeDispatched(name(1)).count == 2
                && flows.takeDispatched(name(1)).isEmpty)
    }

    @Test func `a message's record is the nearest of those with its number`() {
        let round: UInt64 = 1 << 36
        let pairs: [(UInt64, UInt64)] = [(5, 9), (9, 5), (round + 3, round - 2), (round - 2, round + 3), (7 * round, 7 * round)]
        for (sequence, place) in pairs {
            let name = MessageName(partition: 3, sequence: sequence, index: 4)
            let dispatched = name.dispatched(by: 5)
            #expect(dispatched.sequence(near: place) == sequence && dispatched.partition == 3)
        }
    }

    @Test func `a name says by which share group a message was dispatched`() {
        // The last message that a record can have, in the last partition.
        let name = MessageName(partition: 255, sequence: 1 << 36 - 1, index: 0x1fff)
        #expect(name.share == nil && !name.isDispatched && name.asPublished == name)
        for share in [0, 1, 125] {
            let dispatched = name.dispatched(by: share)
            #expect(
                dispatched.share == share && dispatched.isDispatched && dispatched.asPublished == name
                    && dispatched != name.dispatched(by: share + 1))
            #expect(dispatched.dispatched(by: 7) == name.dispatched(by: 7))
        }
        #expect(name.dispatched(by: 200) == name.dispatched(by: 126) && name.dispatched(by: 200).asPublished == name)
    }
}
