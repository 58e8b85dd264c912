/// The quality of service of a message: how often it may and must arrive.
public enum QoS: UInt8, Comparable, Sendable {
    case atMostOnce = 0
    case atLeastOnce = 1
    case exactlyOnce = 2

    @inline(__always)
    public static func < (left: QoS, right: QoS) -> Bool { left.rawValue < right.rawValue }
}
