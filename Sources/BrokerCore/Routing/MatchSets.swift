/// The places of the match cache: sets of four lines, each set in one line of the processor's cache.
///
///     set:  tag │ tag │ tag │ tag │ line │ line │ line │ line │ –     16 + 32 bytes of 64
///
/// A tag is the upper half of a topic's hash, so that lines of other topics are not looked at. A set's lines are there from the first on,
/// and each topic has one line at most; lines are retained. 256 KiB, and with all lines made, of short topics with few receivers, 5 MB.
struct MatchSets: ~Copyable {
    static let count = 4096
    static let wayCount = 4
    private static let setBytes = 64
    private static let linesOffset = wayCount * MemoryLayout<UInt32>.size

    private let base: UnsafeMutableRawPointer
    /// Which of a set's lines makes room for the next topic.
    private var turn = 0

    init() {
        base = .allocate(byteCount: Self.count * Self.setBytes, alignment: Self.setBytes)
        for set in 0..<Self.count {
            let start = base + set * Self.setBytes
            start.initializeMemory(as: UInt32.self, repeating: 0, count: Self.wayCount)
            (start + Self.linesOffset).initializeMemory(as: Unmanaged<Audience>?.self, repeating: nil, count: Self.wayCount)
        }
    }

    deinit {
        for set in 0..<Self.count {
            for way in 0..<Self.wayCount { lines(base + set * Self.setBytes)[way]?.release() }
        }
        base.deallocate()
    }

    /// The line of a topic, if there is one; what it says may be old.
    @inline(__always)
    func find(_ topic: UnsafeRawBufferPointer, hash: UInt64) -> Unmanaged<Audience>? {
        let set = set(of: hash)
        let tag = Self.tag(of: hash)
        for way in 0..<Self.wayCount where tags(set)[way] == tag {
            guard let line = lines(set)[way] else { continue }
            if line._withUnsafeGuaranteedRef({ $0.holds(topic, hash: hash) }) { return line }
        }
        return nil
    }

    /// The line that a topic has, or one for it: a new one, or that of a topic that makes room.
    mutating func line(for topic: UnsafeRawBufferPointer, hash: UInt64) -> Audience {
        if let known = find(topic, hash: hash) { return known.takeUnretainedValue() }
        let set = set(of: hash)
        var way = turn
        if let free = (0..<Self.wayCount).first(where: { lines(set)[$0] == nil }) {
            way = free
            lines(set)[way] = Unmanaged.passRetained(Audience())
        } else {
            turn = (turn + 1) % Self.wayCount
        }
        tags(set)[way] = Self.tag(of: hash)
        return lines(set)[way].unsafelyUnwrapped.takeUnretainedValue()
    }

    func forEach(_ body: (Audience) -> Void) {
        for set in 0..<Self.count {
            for way in 0..<Self.wayCount {
                if let line = lines(base + set * Self.setBytes)[way] { body(line.takeUnretainedValue()) }
            }
        }
    }

    @inline(__always)
    private func set(of hash: UInt64) -> UnsafeMutableRawPointer {
        base + (Int(truncatingIfNeeded: hash) & (Self.count - 1)) &* Self.setBytes
    }

    @inline(__always)
    private func tags(_ set: UnsafeMutableRawPointer) -> UnsafeMutablePointer<UInt32> {
        set.assumingMemoryBound(to: UInt32.self)
    }

    @inline(__always)
    private func lines(_ set: UnsafeMutableRawPointer) -> UnsafeMutablePointer<Unmanaged<Audience>?> {
        (set + Self.linesOffset).assumingMemoryBound(to: Unmanaged<Audience>?.self)
    }

    @inline(__always)
    private static func tag(of hash: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: hash >> 32) }
}
