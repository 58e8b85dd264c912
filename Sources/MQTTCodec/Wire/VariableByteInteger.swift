/// The standard's integer of one to four bytes, seven bits each, least significant first.
public enum VariableByteInteger {
    /// The largest value that four bytes hold.
    public static let max = 268_435_455

    /// How many bytes `value`, which is in 0...`max`, takes. [MQTT-1.5.5-1 v5]
    @inlinable @inline(__always)
    public static func encodedSize(_ value: Int) -> Int {
        value < 128 ? 1 : value < 16_384 ? 2 : value < 2_097_152 ? 3 : 4
    }

    /// Writes `value`, which is in 0...`max`, in as few bytes as it needs and returns how many that are. [MQTT-1.5.5-1 v5]
    @inlinable @inline(__always)
    public static func write(_ value: Int, to memory: UnsafeMutableRawPointer) -> Int {
        precondition(value >= 0 && value <= max, "no variable byte integer holds this value")
        var rest = value
        var count = 0
        while rest >= 128 {
            memory.storeBytes(of: UInt8(truncatingIfNeeded: rest) | 0x80, toByteOffset: count, as: UInt8.self)
            rest &>>= 7
            count &+= 1
        }
        memory.storeBytes(of: UInt8(truncatingIfNeeded: rest), toByteOffset: count, as: UInt8.self)
        return count &+ 1
    }

    /// Reads the integer at the front of `bytes`: its value and how many bytes it takes. Longer forms than needed are malformed.
    /// [MQTT-1.5.5-1 v5]
    @inline(__always)
    public static func read(_ bytes: UnsafeRawBufferPointer) throws(WireError) -> (value: Int, size: Int) {
        var value = 0
        var index = 0
        while index < 4 {
            guard index < bytes.count else { throw .truncated }
            let byte = bytes[index]
            value |= Int(byte & 0x7F) &<< (7 &* index)
            index &+= 1
            if byte < 0x80 {
                if byte == 0 && index > 1 { throw .nonMinimalVariableByteInteger }
                return (value, index)
            }
        }
        throw .nonMinimalVariableByteInteger
    }
}
