import Glibc
import Platform
import Testing

@Suite struct WholeFileTests {
    @Test func `a file is read whole, and refused above its bound`() throws {
        let path = "/tmp/martlet-whole-file-\(getpid())"
        let file = try WrittenFile.openEmptied(path, mode: 0o600)
        defer { unlink(path) }
        let text = [UInt8](repeating: 7, count: 100_000)
        #expect(text.withUnsafeBytes { write(file.rawValue, $0.baseAddress, $0.count) } == text.count)
        file.close()
        #expect(try WholeFile.bytes(of: path, bytesMax: text.count) == text)
        #expect(throws: WholeFile.Failure.isTooLarge) { try WholeFile.bytes(of: path, bytesMax: text.count - 1) }
    }

    @Test func `a text is read without the byte order mark in front of it`() throws {
        let path = "/tmp/martlet-marked-file-\(getpid())"
        defer { unlink(path) }
        for (written, read) in [([0xEF, 0xBB, 0xBF, 7], [7]), ([0xEF, 0xBB, 7], [0xEF, 0xBB, 7]), ([], [])] as [([UInt8], [UInt8])]
        {
            let file = try WrittenFile.openEmptied(path, mode: 0o600)
            #expect(written.withUnsafeBytes { write(file.rawValue, $0.baseAddress, $0.count) } == written.count)
            file.close()
            #expect(try WholeFile.text(of: path, bytesMax: 4) == read)
            #expect(try WholeFile.bytes(of: path, bytesMax: 4) == written)
        }
    }

    @Test func `what is no file tells why`() {
        #expect(throws: WholeFile.Failure.isDirectory) { try WholeFile.bytes(of: "/", bytesMax: 1) }
        #expect(throws: WholeFile.Failure.refused(SystemError(errno: ENOENT, operation: "open"))) {
            try WholeFile.bytes(of: "/nowhere/at all", bytesMax: 1)
        }
    }
}
