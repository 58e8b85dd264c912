import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What a shard remembers of QoS 2 messages that several shards have a part of.
@Suite struct RelayedReceiptsTests {
    private var receipts = RelayedReceipts()
    private let receipt: UInt64 = 257 << 16 | 9

    @Test mutating func `each part is taken once, until the message is released`() {
        let (routed, retained) = (RelayedReceipt(receipt, .routed), RelayedReceipt(receipt, .retained))
        let shared = RelayedReceipt(receipt, .routed, group: 5)
        #expect(!receipts.hasTaken)
        receipts.take(routed, digest: 7)
        receipts.take(shared, row: 256, digest: nil)
        #expect(receipts.hasTaken(routed, digest: 7) && !receipts.hasTaken(routed, digest: 8))
        #expect(receipts.hasTaken(shared, digest: 7), "of an earlier version's the digest is not known")
        #expect(!receipts.hasTaken(retained, digest: 7))
        #expect(!receipts.isStored(routed) && receipts.isStored(shared))
        receipts.take(routed, row: 512, digest: 7)
        receipts.take(routed, digest: 7)
        #expect(receipts.isStored(routed), "its row stays")
        receipts.checkInvariants()
        let other = receipts.release(receipt + 1, [5])
        #expect(other.isEmpty)
        let rows = receipts.release(receipt, [5])
        #expect(rows.sorted() == [256, 512])
        #expect(!receipts.hasTaken && receipts.isEmpty)
    }

    @Test mutating func `a group's part stays when its message is released without that group`() {
        receipts.take(RelayedReceipt(receipt, .routed, group: 5), row: 256, digest: 7)
        let rows = receipts.release(receipt, [6])
        #expect(rows.isEmpty && receipts.hasTaken)
    }

    @Test mutating func `choices are remembered until the sender has released the message`() {
        let choice = GroupChoice(group: 5, session: 1)
        receipts.choose([choice], for: receipt)
        receipts.checkInvariants()
        #expect(receipts.choices(for: receipt) == [choice] && receipts.choices(for: receipt + 1) == nil)
        #expect(receipts.takeChoices(for: receipt) == [choice])
        #expect(receipts.takeChoices(for: receipt).isEmpty && receipts.isEmpty)
    }

    @Test mutating func `what is uncertain goes again once, and only if it is the same`() {
        receipts.markUncertain(receipt, digest: 7)
        #expect(receipts.hasUncertain && receipts.isUncertain(receipt))
        let (another, same, again) = (
            receipts.takesAgain(receipt, digest: 8), receipts.takesAgain(receipt, digest: 7),
            receipts.takesAgain(receipt, digest: 7)
        )
        #expect(!another && same && !again)
        receipts.markUncertain(receipt, digest: nil)
        let unknown = receipts.takesAgain(receipt, digest: 8)
        #expect(unknown, "an earlier version noted no digest")
        receipts.markUncertain(receipt, digest: 7)
        _ = receipts.release(receipt, [])
        #expect(!receipts.hasUncertain)
        let nameless = receipts.takesAgain(0, digest: 7)
        #expect(!nameless)
    }
}
