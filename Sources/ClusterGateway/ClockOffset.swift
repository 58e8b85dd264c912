/// How far a node's clock is from this one's, in words.
package enum ClockOffset {
    /// - Parameter milliseconds: by how much it is ahead; less than 0 for behind.
    package static func text(_ milliseconds: Int64) -> String {
        let tenths = (milliseconds.magnitude + 50) / 100
        return "\(tenths / 10).\(tenths % 10) s \(milliseconds < 0 ? "behind" : "ahead of")"
    }
}
