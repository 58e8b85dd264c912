/// What has been read and not worked off yet: the bytes of many connections, side by side in the loop's scratch memory.
///
/// A round reads from all who have something to say before it looks at any of it. The kernel's way of a read and the broker's own code
/// would else drive each other out of the processor's nearest caches, connection by connection.
///
/// Nobody stands here twice, or a piece might follow one that has made its connection leave.
package struct Arrivals<Source: AnyObject> {
    private struct Piece {
        /// Not retained: the loop keeps a link until the turn ends.
        package let source: Unmanaged<Source>
        package let range: Range<Int>
    }

    private let memory: UnsafeMutableRawBufferPointer
    private var pieces: [Piece] = []
    private var end = 0

    /// - Parameter memory: where the bytes stand; it must outlive this.
    init(in memory: UnsafeMutableRawBufferPointer) {
        self.memory = memory
    }

    /// Where the next read goes.
    package var room: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(rebasing: memory[end...]) }

    /// The first `count` bytes of `room` were read from `source`.
    package mutating func add(_ count: Int, from source: Source) {
        pieces.append(Piece(source: .passUnretained(source), range: end..<end + count))
        end += count
    }

    /// Gives what has been read, in that order, and makes all the room free. `body` must neither read nor add.
    mutating func takeAll(_ body: (UnsafeRawBufferPointer, Source) -> Void) {
        for piece in pieces {
            piece.source._withUnsafeGuaranteedRef { body(UnsafeRawBufferPointer(rebasing: memory[piece.range]), $0) }
        }
        pieces.removeAll(keepingCapacity: true)
        end = 0
    }
}
