/// What has been read and not worked off yet: the bytes of many connections, side by side in the loop's scratch memory.
///
/// A round reads from all who have something to say before it looks at any of it. The kernel's way of a read and the broker's own code
/// would else drive each other out of the processor's nearest caches, connection by connection.
struct Arrivals {
    struct Arrival {
        /// Not retained: the loop keeps a link until the turn ends.
        let link: Unmanaged<Link>
        let range: Range<Int>
    }

    private let memory: UnsafeMutableRawBufferPointer
    private var arrivals: [Arrival] = []
    private var end = 0

    /// - Parameter memory: where the bytes stand; it must outlive this.
    init(in memory: UnsafeMutableRawBufferPointer) {
        self.memory = memory
    }

    var isEmpty: Bool { arrivals.isEmpty }

    /// Where the next read goes.
    var room: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(rebasing: memory[end...]) }

    /// The first bytes of `room` were read from the link.
    mutating func add(_ count: Int, from link: Link) {
        arrivals.append(Arrival(link: .passUnretained(link), range: end..<end + count))
        end += count
    }

    /// Gives what has been read, in that order. What `body` reads meanwhile would stand in its way: it must not read.
    mutating func takeAll(_ body: (UnsafeRawBufferPointer, Link) -> Void) {
        for arrival in arrivals {
            arrival.link._withUnsafeGuaranteedRef { body(UnsafeRawBufferPointer(rebasing: memory[arrival.range]), $0) }
        }
        arrivals.removeAll(keepingCapacity: true)
        end = 0
    }
}
