internal import Bytes

/// Puts each MQTT packet of a byte stream into a binary frame of its own. [MQTT-6.0.0-1 v5]
///
/// Some clients lose what follows the first packet of a frame. A packet may come in pieces, its fixed header too: the frame's length
/// is the packet's, so a frame begins when the Remaining Length is known, and its bytes follow as they come.
struct WebSocketPacketFramer: ~Copyable {
    /// The fixed header, as far as it has come.
    private var head = InlineArray<5, UInt8>(repeating: 0)
    private var headCount = 0
    /// How much of the packet whose frame has begun is still to come.
    private var remaining = 0

    /// Whether a frame of another kind may be put in here.
    var isBetweenFrames: Bool { remaining == 0 }

    /// Frames the bytes onto the end of `target`.
    mutating func frame(_ slice: ByteSlice, into target: ByteBlock) {
        var position = slice.base
        var left = slice.count
        while left > 0 {
            if remaining == 0 {
                head[headCount] = position.load(as: UInt8.self)
                headCount &+= 1
                position += 1
                left &-= 1
                if isHeadComplete { begin(into: target) }
                continue
            }
            let taken = min(remaining, left)
            target.append(position, count: taken)
            position += taken
            left &-= taken
            remaining &-= taken
        }
    }

    /// The packet type, then one to four digits of the length, all but the last with their highest bit set.
    private var isHeadComplete: Bool { headCount > 1 && (head[headCount &- 1] & 0x80 == 0 || headCount == 5) }

    private mutating func begin(into target: ByteBlock) {
        var length = 0
        for index in 1..<headCount { length |= Int(head[index] & 0x7F) << (7 * (index &- 1)) }
        WebSocketFrame.appendHead(.binary, length: headCount &+ length, to: target)
        for index in 0..<headCount { target.extend(by: 1).storeBytes(of: head[index], as: UInt8.self) }
        headCount = 0
        remaining = length
    }
}
