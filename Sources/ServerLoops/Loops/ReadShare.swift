/// How much one connection may bring into a turn, so that a client that floods the broker does not make turns long for the others.
///
/// Messages with many receivers gain from long turns: the more come together, the fewer writes. Messages with few do not, for a
/// write carries hundreds of them as it is. So a connection whose messages have few receivers is read from once a turn, and no more
/// at a time than about `messagesMax` of its messages have needed; nothing of that touches one that sends little.
///
/// Of the others, those whose last read was shard messages for other loops may be parked until these have worked it
/// off.
package struct ReadShare {
    /// What one read may take.
    private var readBytesMax = UInt32.max
    /// The turn in which the share was spent.
    private var spentTurn = UInt32.max
    /// Whether the last read brought much, and shard messages for other loops with it, and the next may bring more.
    private(set) var isBulk = false

    /// How many bytes may be read in this turn; 0: others first. The rest waits in the socket, where it slows the sender down.
    package func bytes(of scratch: Int, turn: UInt32) -> Int {
        spentTurn == turn ? 0 : min(scratch, Int(readBytesMax))
    }

    /// Whether it is worth looking at what comes of a read of that many bytes: `note` then, `markLittle` if not.
    static func isNotable(_ byteCount: Int) -> Bool { byteCount >= notableBytes }

    mutating func markLittle() { isBulk = false }

    /// Notes what one read came to: packets received, and messages sent and bytes of shard messages made because of
    /// them.
    package mutating func note(byteCount: Int, received: UInt64, sent: UInt64, shardMessageBytes: Int, turn: UInt32) {
        guard received > 0, sent <= received * Self.fewReceivers else {
            readBytesMax = .max
            isBulk = shardMessageBytes > 0
            return
        }
        isBulk = false
        readBytesMax = UInt32(clamping: max(Self.notableBytes, byteCount * Limits.messagesPerRead / Int(received)))
        if received >= Self.spentMessages { spentTurn = turn }
    }

    private static let notableBytes = 4096
    /// A read that is cut to `messagesMax` may come to a few less.
    private static let spentMessages = 192
    private static let fewReceivers: UInt64 = 4
}
