public import MQTTCodec

/// The hash of topics and levels: seeded, so that nobody outside can choose names that collide.
///
/// Eight bytes at a time through a full 128-bit multiplication, whose halves are folded. A weaker mix made the same
/// last level under ten thousand parents collide and a match cost five times as much.
///
/// Public, as all here that is inlinable: what is `package` is called by other targets, not inlined.
public struct TopicHash: Sendable {
    /// What makes this broker's hashes others than another's.
    public let seed: UInt64

    /// The hash of a topic or level.
    @inlinable @inline(__always)
    public func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var state = seed ^ UInt64(truncatingIfNeeded: bytes.count)
        // No bytes hash alike, whether their memory has an address or none.
        guard let base = bytes.baseAddress else { return Self.mix(state, Self.multiplier &+ state) }
        var offset = 0
        while bytes.count &- offset >= 8 {
            state = Self.mix(state ^ (base + offset).loadUnaligned(as: UInt64.self), Self.multiplier)
            offset &+= 8
        }
        return Self.mix(state ^ Self.rest(base, bytes.count, from: offset), Self.multiplier &+ state)
    }

    /// The last bytes, fewer than eight, the first of them highest. Loads that overlap what comes before cost less than
    /// one for each.
    @inlinable @inline(__always)
    public static func rest(_ base: UnsafeRawPointer, _ count: Int, from offset: Int) -> UInt64 {
        if offset == count { return 0 }
        if count >= 8 {
            let last = (base + (count &- 8)).loadUnaligned(as: UInt64.self).bigEndian
            return last & ~(UInt64.max << UInt64((count &- offset) &* 8))
        }
        if count >= 4 {
            let first = UInt64(base.loadUnaligned(as: UInt32.self).bigEndian)
            let last = UInt64((base + (count &- 4)).loadUnaligned(as: UInt32.self).bigEndian)
            return first << UInt64((count &- 4) &* 8) | last
        }
        var rest: UInt64 = 0
        for place in 0..<count { rest = rest << 8 | UInt64((base + place).load(as: UInt8.self)) }
        return rest
    }

    /// The hash of a pair of 32-bit keys.
    @inlinable @inline(__always)
    public func hash(_ first: UInt32, _ second: UInt32) -> UInt64 {
        Self.mix(seed ^ (UInt64(first) << 32 | UInt64(second)), Self.multiplier)
    }

    /// Both numbers multiplied, and the halves of that folded.
    @inlinable @inline(__always)
    public static func mix(_ first: UInt64, _ second: UInt64) -> UInt64 {
        let product = first.multipliedFullWidth(by: second)
        return product.high ^ product.low
    }

    /// An odd number without pattern: 2⁶⁴ by the golden ratio.
    @inlinable public static var multiplier: UInt64 { 0x9e37_79b9_7f4a_7c15 }

    /// Hashes by a seed that nobody outside knows.
    @inlinable public init(seed: UInt64) { self.seed = seed }
}

/// What a subscription grants, packed into 32 bits: maximum QoS, No Local, Retain As Published and the Subscription
/// Identifier (1 to 268,435,455; 0 for none).
public struct SubscriptionTerms: Hashable, Sendable, BitwiseCopyable {
    /// QoS in bits 0 and 1, No Local in 2, Retain As Published in 3, the identifier from 4 on.
    public let bits: UInt32

    /// Of its parts.
    @inlinable public init(maximumQoS: QoS, noLocal: Bool = false, retainAsPublished: Bool = false, identifier: UInt32 = 0) {
        bits = UInt32(maximumQoS.rawValue) | (noLocal ? 4 : 0) | (retainAsPublished ? 8 : 0) | identifier << 4
    }

    /// Of bits that were another value's.
    @inlinable public init(bits: UInt32) { self.bits = bits }

    /// Of bits that may be anything; nil if they name no QoS.
    @inlinable public init?(exactly bits: UInt32) {
        guard bits & 3 < 3 else { return nil }
        self.bits = bits
    }

    /// With which QoS messages come at most.
    @inlinable public var maximumQoS: QoS { QoS(rawValue: UInt8(truncatingIfNeeded: bits & 3)) ?? .atMostOnce }
    /// Whether the client's own messages do not come.
    @inlinable public var noLocal: Bool { bits & 4 != 0 }
    /// Whether RETAIN stays as it was published.
    @inlinable public var retainAsPublished: Bool { bits & 8 != 0 }
    /// The Subscription Identifier; 0 for none.
    @inlinable public var identifier: UInt32 { bits >> 4 }
}
