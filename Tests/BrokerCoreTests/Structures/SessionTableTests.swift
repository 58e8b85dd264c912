import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore

@Suite struct SessionTableTests {
    @Test func `a session that has ended lives until the turn does, and its index is free at once`() {
        var table = SessionTable(shard: 0, ofBroker: SimulatedSessionCount())
        weak var gone: Session?
        var ended: Reference<Session>?
        do {
            let session = table.make("first", publisherKey: 1)
            gone = session
            ended = Reference(session)
            table.remove(session)
        }
        let next = table.make("second", publisherKey: 2)
        #expect(next.index == 0 && next.generation == 1)
        #expect(ended?.with { $0.publisherKey } == 1)
        #expect(gone != nil && table.count == 1)
        table.endTurn()
        #expect(gone == nil)
        #expect(table.find("second") === next && table.find("first") == nil)
    }
}
