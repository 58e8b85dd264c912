import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore

@Suite struct MessageTests {
    private let ledger = MessageLedger()

    private func held(_ topic: String, size: Int) -> Reference<Message> {
        StructureMessage.make(topic, payload: [UInt8](repeating: 7, count: size), ledger: ledger).hold()
    }

    @Test(arguments: [0, 30, 31, 32, 100, 510]) func `memory goes to the next message of its size`(size: Int) {
        let first = held("a", size: size)
        let address = first.address
        Message.letGo(first)
        #expect(ledger.count == 0 && ledger.byteCount == 0)
        let larger = StructureMessage.make("a", payload: [UInt8](repeating: 1, count: size + 33), ledger: ledger)
        #expect(Reference(larger).address != address, "it has no room for that")
        let next = StructureMessage.make("b", payload: [UInt8](repeating: 9, count: size), qos: .exactlyOnce, ledger: ledger)
        #expect(Reference(next).address == address)
        #expect(next.topic.elementsEqual("b".utf8) && next.payload.elementsEqual([UInt8](repeating: 9, count: size)))
        #expect(next.qos == .exactlyOnce && next.source == nil && next.stored == nil)
        #expect(ledger.count == 2 && ledger.byteCount == larger.byteCount + next.byteCount)
    }

    @Test func `a message that is needed elsewhere keeps its memory when the last entry lets go`() {
        let message = StructureMessage.make("kept", ledger: ledger)
        let holds = (0..<3).map { _ in message.hold() }
        for hold in holds { Message.letGo(hold) }
        let next = StructureMessage.make("next", ledger: ledger)
        #expect(next !== message)
        #expect(message.topic.elementsEqual("kept".utf8))
        #expect(ledger.count == 2)
        Message.letGo(message.hold())
        #expect(message.topic.elementsEqual("kept".utf8) && ledger.count == 2)
    }

    @Test func `two megabytes are kept, with what a message takes beside its bytes`() {
        var idle = IdleMessages()
        var kept = 0
        for _ in 0..<20_000 {
            let message = held("t", size: 1)
            guard idle.put(message, 2) else {
                message.release()
                continue
            }
            ledger.leave(2)
            kept += 1
        }
        #expect(kept == (2 << 20) / (32 + 96))
        #expect(ledger.count == 0)
        let found = idle.take(33) != nil
        #expect(!found, "there is none of that size")
        for _ in 0..<kept {
            guard let message = idle.take(2) else {
                Issue.record("fewer come out than went in")
                return
            }
            message.with { $0.forgetLedger() }
            message.release()
        }
        let isEmpty = idle.take(2) == nil
        #expect(isEmpty)
    }

    @Test func `a ledger lives as long as its messages`() {
        weak var gone: MessageLedger?
        var message: Message?
        do {
            let ledger = MessageLedger()
            gone = ledger
            message = StructureMessage.make("t", ledger: ledger)
            Message.letGo(StructureMessage.make("put aside", ledger: ledger).hold())
        }
        #expect(gone?.count == 1)
        #expect(message?.topic.count == 1)
        message = nil
        #expect(gone == nil)
    }
}
