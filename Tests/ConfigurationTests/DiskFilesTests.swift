import Configuration
import Testing

@Suite struct DiskFilesTests {
    private let directory = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")

    @Test func `a directory's names are given, without itself and its parent`() throws {
        let names = try DiskFiles().names(inDirectory: directory)
        #expect(names.contains("DiskFilesTests.swift"))
        #expect(!names.contains(".") && !names.contains(".."))
    }

    @Test func `a file is read whole, and not beyond the bound`() throws {
        let path = directory + "/DiskFilesTests.swift"
        let bytes = try DiskFiles().contents(ofFile: path, bytesMax: 1 << 20)
        #expect(String(decoding: bytes, as: UTF8.self).hasPrefix("import Configuration\n"))
        #expect(throws: FileFailure.self) { try DiskFiles().contents(ofFile: path, bytesMax: bytes.count - 1) }
        #expect(try DiskFiles().contents(ofFile: path, bytesMax: bytes.count) == bytes)
    }

    @Test func `what is not there or not a file fails with the system's reason`() {
        let missing = FileFailure(operation: "open", path: "/none", errorNumber: 2, reason: "No such file or directory")
        #expect(throws: missing) { try DiskFiles().contents(ofFile: "/none", bytesMax: 1) }
        let directoryFailure = FileFailure(operation: "read", path: directory, errorNumber: 21, reason: "Is a directory")
        #expect(throws: directoryFailure) { try DiskFiles().contents(ofFile: directory, bytesMax: 1) }
        #expect(throws: FileFailure.self) { try DiskFiles().names(inDirectory: "/none") }
    }
}
