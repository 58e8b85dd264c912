package import MQTTCodec

/// What a subscription grants, packed into 32 bits: maximum QoS, No Local, Retain As Published and the Subscription Identifier
/// (1 to 268,435,455; 0 for none).
package struct SubscriptionTerms: Hashable, BitwiseCopyable {
    @usableFromInline package private(set) var bits: UInt32

    @inlinable package init(maximumQoS: QoS, noLocal: Bool = false, retainAsPublished: Bool = false, identifier: UInt32 = 0) {
        bits = UInt32(maximumQoS.rawValue) | (noLocal ? 4 : 0) | (retainAsPublished ? 8 : 0) | identifier << 4
    }

    @inlinable package init(bits: UInt32) { self.bits = bits }

    /// Of bits that may be anything; nil if they name no QoS.
    @inlinable package init?(exactly bits: UInt32) {
        guard bits & 3 < 3 else { return nil }
        self.bits = bits
    }

    @inlinable package var maximumQoS: QoS { QoS(rawValue: UInt8(truncatingIfNeeded: bits & 3)) ?? .atMostOnce }
    @inlinable package var noLocal: Bool { bits & 4 != 0 }
    @inlinable package var retainAsPublished: Bool { bits & 8 != 0 }
    @inlinable package var identifier: UInt32 { bits >> 4 }
}
