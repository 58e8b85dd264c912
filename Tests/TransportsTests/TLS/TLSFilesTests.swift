import Glibc
import Platform
import Testing

@testable import Transports

@Suite struct TLSFilesTests {
    /// OpenSSL would pass over the first block, and say nothing where others follow it.
    @Test(arguments: [
        ("\u{FEFF}-----BEGIN CERTIFICATE-----\n", false), ("-----BEGIN CERTIFICATE-----\n", true),
        ("\u{FEFF}subject=CN = ours\n-----BEGIN CERTIFICATE-----\n", true), ("\u{FEFF}", true), ("", true),
    ])
    func `a byte order mark right in front of a block is refused`(text: String, isTaken: Bool) throws {
        let path = "/tmp/martlet-marked-block-\(getpid())-\(text.utf8.count)"
        let file = try WrittenFile.openEmptied(path, mode: 0o600)
        defer { unlink(path) }
        let bytes = Array(text.utf8)
        #expect(bytes.withUnsafeBytes { write(file.rawValue, $0.baseAddress, $0.count) } == bytes.count)
        file.close()
        if isTaken {
            try TLSFiles.checkReadable("cafile", path)
        } else {
            let failure = try #require(throws: TLSFailure.self) { try TLSFiles.checkReadable("cafile", path) }
            #expect(failure.reason.hasSuffix(#"Remove it: sed -i --follow-symlinks '1s/^\xEF\xBB\xBF//' '\#(path)'"#))
        }
        try TLSFiles.checkReadable("capath", "/tmp")
    }
}
