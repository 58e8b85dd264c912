internal import RowStore

/// A part of SQLite's write-ahead log: the header, or a frame with one page. Numbers are big-endian.
///
///     header 32   magic 4 | version 4 | page size 4 | sequence 4 | salts 8 | checksum 8
///     frame 24    page number 4 | pages of the database after a commit, else 0 4 | salts 8 | checksum 8      then the page
struct LogFrame {
    static let headerSize = 32
    static let size = 24 + Int(RowSchema.pageSize)

    private(set) var bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// A header for a log that has lost its own.
    static func header(salts: ArraySlice<UInt8>) -> LogFrame {
        var header = LogFrame([])
        for value in [0x377f_0682, 3_007_000, UInt32(RowSchema.pageSize), 0] {
            withUnsafeBytes(of: value.bigEndian) { header.bytes.append(contentsOf: $0) }
        }
        header.bytes += salts + [UInt8](repeating: 0, count: 8)
        header.seal(after: LogChecksum())
        return header
    }

    var pageNumber: UInt32 { read(0) }
    var isCommit: Bool { read(4) != 0 }
    var salts: ArraySlice<UInt8> { isHeader ? bytes[16..<24] : bytes[8..<16] }
    /// The checksum that stands in it.
    var checksum: LogChecksum { LogChecksum(read(checksumOffset), read(checksumOffset + 4)) }

    /// The checksum that it should have after another part.
    func checksum(after other: LogChecksum) -> LogChecksum {
        var sum = other
        bytes.withUnsafeBytes { bytes in
            sum.add(UnsafeRawBufferPointer(rebasing: bytes[..<(isHeader ? 24 : 8)]))
            sum.add(UnsafeRawBufferPointer(rebasing: bytes[checksumEnd...]))
        }
        return sum
    }

    /// Writes the checksum that it should have.
    mutating func seal(after other: LogChecksum) {
        let sum = checksum(after: other)
        for (index, value) in [sum.first, sum.second].enumerated() {
            withUnsafeBytes(of: value.bigEndian) {
                bytes.replaceSubrange((checksumOffset + 4 * index)..<(checksumOffset + 4 * index + 4), with: $0)
            }
        }
    }

    private var isHeader: Bool { bytes.count == Self.headerSize }
    private var checksumOffset: Int { isHeader ? 24 : 16 }
    private var checksumEnd: Int { checksumOffset + 8 }

    private func read(_ offset: Int) -> UInt32 {
        bytes.withUnsafeBytes { UInt32(bigEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self)) }
    }
}

/// The running checksum of SQLite's write-ahead log, over words as a little-endian machine has them.
struct LogChecksum: Equatable {
    private(set) var first: UInt32 = 0
    private(set) var second: UInt32 = 0

    init() {}

    init(_ first: UInt32, _ second: UInt32) {
        self.first = first
        self.second = second
    }

    /// - Parameter bytes: a multiple of eight.
    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        for offset in stride(from: 0, to: bytes.count, by: 8) {
            first &+= UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)) &+ second
            second &+= UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self)) &+ first
        }
    }
}
