import Testing

@testable import MartletServer
@testable import ServerLoops

@Suite struct ReadShareTests {
    private let scratch = 256 << 10

    @Test func `a connection may fill the scratch until it has shown what it sends`() {
        let share = ReadShare()
        #expect(share.bytes(of: scratch, turn: 0) == scratch)
        #expect(share.bytes(of: scratch, turn: 7) == scratch)
    }

    @Test func `a flood of small messages to few is read once a turn, a few hundred messages at a time`() {
        var share = ReadShare()
        share.record(byteCount: scratch, received: 3120, sent: 3120, shardMessageBytes: 0, turn: 1)
        #expect(share.bytes(of: scratch, turn: 1) == 0, "the others' turn")
        let next = share.bytes(of: scratch, turn: 2)
        #expect((20_000...22_000).contains(next), "256 messages of 84 bytes")
        share.record(byteCount: next, received: 255, sent: 0, shardMessageBytes: 0, turn: 2)
        #expect(share.bytes(of: scratch, turn: 2) == 0)
        #expect(share.bytes(of: scratch, turn: 3) >= next)
    }

    @Test func `messages for many receivers come in as they can`() {
        var share = ReadShare()
        share.record(byteCount: 80_000, received: 1000, sent: 20_000, shardMessageBytes: 0, turn: 1)
        #expect(share.bytes(of: scratch, turn: 1) == scratch)
    }

    @Test func `a flood that finds many receivers again is free again`() {
        var share = ReadShare()
        share.record(byteCount: 80_000, received: 1000, sent: 0, shardMessageBytes: 0, turn: 1)
        share.record(byteCount: 20_000, received: 250, sent: 25_000, shardMessageBytes: 0, turn: 2)
        #expect(share.bytes(of: scratch, turn: 2) == scratch)
    }

    @Test func `large messages are few, and may fill the scratch`() {
        var share = ReadShare()
        share.record(byteCount: scratch, received: 16, sent: 16, shardMessageBytes: 0, turn: 1)
        #expect(share.bytes(of: scratch, turn: 1) == scratch)
        share.record(byteCount: scratch, received: 0, sent: 0, shardMessageBytes: 0, turn: 1)
        #expect(share.bytes(of: scratch, turn: 1) == scratch, "a part of a packet")
    }

    @Test func `a connection is a bulk one while what it brings is much, for other loops too, and may be more`() {
        var share = ReadShare()
        #expect(!share.isBulk)
        share.record(byteCount: 80_000, received: 1000, sent: 20_000, shardMessageBytes: 160_000, turn: 1)
        #expect(share.isBulk)
        share.record(byteCount: 80_000, received: 1000, sent: 20_000, shardMessageBytes: 0, turn: 2)
        #expect(!share.isBulk, "nobody else has to work on it")
        share.record(byteCount: scratch, received: 0, sent: 0, shardMessageBytes: 80, turn: 3)
        #expect(share.isBulk)
        share.markLittle()
        #expect(!share.isBulk)
        share.record(byteCount: scratch, received: 3120, sent: 3120, shardMessageBytes: 500_000, turn: 4)
        #expect(!share.isBulk, "the next read brings no more, however long it waits")
    }

    @Test func `whatever a packet takes, a read takes some of it`() {
        var share = ReadShare()
        share.record(byteCount: 200_000, received: 100_000, sent: 0, shardMessageBytes: 0, turn: 1)
        #expect(share.bytes(of: scratch, turn: 2) == 4096)
    }
}
