import Glibc
import HTTP
import Testing

@testable import MartletServer

/// Files of `http_dir`, and what they take in memory while they are read.
@Suite struct FileDirectoryTests {
    private let place: TemporaryDirectory

    init() throws { place = try TemporaryDirectory() }

    private func write(_ name: String, _ count: Int) throws {
        let file = try #require(fopen(place.file(name), "w"))
        defer { fclose(file) }
        let bytes = [UInt8](repeating: 0x61, count: count)
        try #require(fwrite(bytes, 1, count, file) == count)
    }

    private func content(_ directory: FileDirectory, _ path: String, _ fields: HTTPFields = [:]) throws -> any HTTPContent {
        let answer = directory.answer(to: try #require(HTTPRequest(.get, path, fields: fields)))
        guard case .content(let content) = answer.body else { throw NoContent() }
        return content
    }

    private struct NoContent: Error {}

    private func bytes(_ content: any HTTPContent) -> Int {
        var offset = 0
        while offset < content.byteCount {
            let piece = content.bytes(from: offset, count: 65_536)
            guard !piece.isEmpty, piece.allSatisfy({ $0 == 0x61 }) else { return offset }
            offset += piece.count
        }
        return offset
    }

    @Test func `a large file is read from the disk piece by piece, and none of it stays in memory`() throws {
        try write("large.bin", 5_000_000)
        let directory = FileDirectory(path: place.path)
        let readers = try (0..<40).map { _ in try content(directory, "/large.bin") }
        #expect(readers.allSatisfy { $0.byteCount == 5_000_000 && $0.heldByteCount == 0 })
        #expect(bytes(readers[7]) == 5_000_000)
        // Another one takes its name: who reads goes on with the one that was there.
        unlink(place.file("large.bin"))
        try write("large.bin", 3_000_000)
        #expect(bytes(readers[8]) == 5_000_000)
        #expect(try content(directory, "/large.bin").byteCount == 3_000_000)
    }

    @Test func `a file that becomes shorter while it is read has an end`() throws {
        try write("large.bin", 5_000_000)
        let reader = try content(FileDirectory(path: place.path), "/large.bin")
        #expect(truncate(place.file("large.bin"), 1_000_000) == 0)
        #expect(bytes(reader) == 1_000_000)
    }

    @Test func `a file that is larger than may be is not there`() throws {
        try write("huge.bin", (16 << 20) + 1)
        let answer = FileDirectory(path: place.path).answer(to: try #require(HTTPRequest(.get, "/huge.bin")))
        #expect(answer.status == .notFound)
    }

    @Test func `all who read a file in memory share it, and it counts for them once it is forgotten`() throws {
        for number in 0..<20 { try write("\(number).bin", 2_000_000) }
        let directory = FileDirectory(path: place.path)
        let readers = try (0..<10).map { _ in try content(directory, "/0.bin") }
        #expect(readers.allSatisfy { $0.heldByteCount == 0 } && bytes(readers[3]) == 2_000_000)
        for number in 1..<20 { _ = try content(directory, "/\(number).bin") }
        #expect(readers.allSatisfy { $0.heldByteCount == 2_000_000 }, "32 MiB are kept")
        #expect(try content(directory, "/19.bin").heldByteCount == 0)
        #expect(bytes(readers[4]) == 2_000_000)
    }

    @Test func `what is compressed is smaller, and sent as it is where it is small`() throws {
        try write("text.txt", 1_000_000)
        let directory = FileDirectory(path: place.path)
        let request = try #require(HTTPRequest(.get, "/text.txt", fields: ["Accept-Encoding": "gzip"]))
        let answer = directory.answer(to: request)
        #expect(answer.fields["Content-Encoding"] == "gzip" && (answer.bytes?.count ?? .max) < 10_000)
        #expect(try content(directory, "/text.txt").byteCount == 1_000_000)
    }
}

@Suite struct LineLimitTests {
    @Test func `of many lines in a second a hundred are written, and the next second tells how many were not`() {
        var limit = LineLimit()
        var told: [Int] = []
        #expect((0..<5000).count { _ in limit.admits(now: 7500) { told.append($0) } } == 100)
        #expect(told.isEmpty)
        #expect(limit.admits(now: 8000) { told.append($0) })
        #expect(told == [4900])
        #expect((0..<100).count { _ in limit.admits(now: 8001) { told.append($0) } } == 99 && told == [4900])
    }
}
