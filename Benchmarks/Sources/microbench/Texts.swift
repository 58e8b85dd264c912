/// Many texts in one piece of memory, as topics lie in what was read.
final class Texts {
    private let memory: UnsafeMutableRawBufferPointer
    private let ends: [Int]
    let count: Int

    init(_ texts: [String]) {
        var ends: [Int] = []
        let bytes = texts.reduce(into: [UInt8]()) {
            $0.append(contentsOf: $1.utf8)
            ends.append($0.count)
        }
        memory = .allocate(byteCount: max(1, bytes.count), alignment: 16)
        memory.copyBytes(from: bytes)
        self.ends = ends
        count = texts.count
    }

    deinit { memory.deallocate() }

    /// All of them together.
    var byteCount: Int { ends.last ?? 0 }

    subscript(index: Int) -> UnsafeRawBufferPointer {
        let start = index == 0 ? 0 : ends[index - 1]
        return UnsafeRawBufferPointer(rebasing: memory[start..<ends[index]])
    }
}
