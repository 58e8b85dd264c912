/// The places of the match cache: sets of four lines, each set in one line of the processor's cache.
///
///     set:  tag │ tag │ tag │ tag │ line │ line │ line │ line │ –     16 + 32 bytes of 64
///
/// A tag is the upper half of a topic's hash, so that lines of other topics are not looked at. A set's lines are there from the first on,
/// and each topic has one line at most; lines are retained. 256 KiB, and with all lines made, of short topics with few receivers, 5 MB.
struct MatchSets: ~Copyable {
    private static let setBytes = 64
    private static let linesOffset = Limits.cachedTopicsPerSet * MemoryLayout<UInt32>.size

    private let base: UnsafeMutableRawPointer
    /// Which of a set's lines makes room for the next topic.
    private var turn = 0

    init() {
        base = .allocate(byteCount: Limits.cachedTopicSets * Self.setBytes, alignment: Self.setBytes)
        for set in 0..<Limits.cachedTopicSets {
            let start = base + set * Self.setBytes
            start.initializeMemory(as: UInt32.self, repeating: 0, count: Limits.cachedTopicsPerSet)
            (start + Self.linesOffset).initializeMemory(
                as: Reference<Matches>?.self, repeating: nil, count: Limits.cachedTopicsPerSet)
        }
    }

    deinit {
        for set in 0..<Limits.cachedTopicSets {
            for way in 0..<Limits.cachedTopicsPerSet { lines(base + set * Self.setBytes)[way]?.release() }
        }
        base.deallocate()
    }

    /// The line of a topic, if there is one; what it says may be old.
    @inline(__always)
    func find(_ topic: UnsafeRawBufferPointer, hash: UInt64) -> Reference<Matches>? {
        let set = set(of: hash)
        let tag = Self.tag(of: hash)
        for way in 0..<Limits.cachedTopicsPerSet where tags(set)[way] == tag {
            guard let line = lines(set)[way] else { continue }
            if line.with({ $0.holds(topic, hash: hash) }) { return line }
        }
        return nil
    }

    /// The line that a topic has, or one for it: a new one, or that of a topic that makes room.
    mutating func line(for topic: UnsafeRawBufferPointer, hash: UInt64) -> Matches {
        if let known = find(topic, hash: hash) { return known.object }
        let set = set(of: hash)
        var way = turn
        if let free = (0..<Limits.cachedTopicsPerSet).first(where: { lines(set)[$0] == nil }) {
            way = free
            lines(set)[way] = Reference(retaining: Matches())
        } else {
            turn = (turn + 1) % Limits.cachedTopicsPerSet
        }
        tags(set)[way] = Self.tag(of: hash)
        return lines(set)[way].unsafelyUnwrapped.object
    }

    func forEach(_ body: (Matches) -> Void) {
        for set in 0..<Limits.cachedTopicSets {
            for way in 0..<Limits.cachedTopicsPerSet {
                if let line = lines(base + set * Self.setBytes)[way] { body(line.object) }
            }
        }
    }

    @inline(__always)
    private func set(of hash: UInt64) -> UnsafeMutableRawPointer {
        base + (Int(truncatingIfNeeded: hash) & (Limits.cachedTopicSets - 1)) &* Self.setBytes
    }

    @inline(__always)
    private func tags(_ set: UnsafeMutableRawPointer) -> UnsafeMutablePointer<UInt32> {
        set.assumingMemoryBound(to: UInt32.self)
    }

    @inline(__always)
    private func lines(_ set: UnsafeMutableRawPointer) -> UnsafeMutablePointer<Reference<Matches>?> {
        (set + Self.linesOffset).assumingMemoryBound(to: Reference<Matches>?.self)
    }

    @inline(__always)
    private static func tag(of hash: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: hash >> 32) }
}
