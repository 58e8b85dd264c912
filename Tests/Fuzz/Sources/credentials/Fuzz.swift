import FuzzKit

@testable import Security

/// The first byte says which file of names and secrets the rest is.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    let bytes = script.remainder()
    switch choice & 3 {
    case 0: checkPasswords(bytes)
    case 1: checkScram(bytes)
    case 2: checkKeys(bytes)
    default: checkEditing(bytes)
    }
    return 0
}

private func checkPasswords(_ bytes: [UInt8]) {
    checkProblems { try PasswordFile(bytes, file: "f") }
    for line in lines(of: bytes) {
        guard let hash = try? PasswordHash(line) else { continue }
        expect((try? PasswordHash(hash.text)) == hash, "\(hash.text) is read otherwise")
        expect(ScramCredentials(line) == nil, "it is both kinds")
    }
}

private func checkScram(_ bytes: [UInt8]) {
    checkProblems { try ScramFile(bytes, file: "f") }
    for line in lines(of: bytes) {
        guard let credentials = ScramCredentials(line) else { continue }
        expect(ScramCredentials(credentials.text) == credentials, "\(credentials.text) is read otherwise")
    }
}

private func checkKeys(_ bytes: [UInt8]) {
    checkProblems { try PreSharedKeyFile(bytes, file: "f") }
}

/// What `martlet passwd` makes of a file: it finds what it has put there, and all else stays.
private func checkEditing(_ bytes: [UInt8]) {
    var file = CredentialFile(bytes)
    let before = file.bytes
    expect(CredentialFile(before).bytes == before, "what is written is read otherwise")
    guard (try? file.set("anna", to: "$6$QQ==$x")) != nil else { preconditionFailure("anna is no name") }
    expect(file.contains("anna") && CredentialFile(file.bytes).contains("anna"), "anna is not found")
    expect(file.remove("anna") && !file.contains("anna"), "anna is there still")
    let hashed: ([UInt8]) -> String = { _ in "$6$QQ==$" + String(repeating: "A", count: 86) + "==" }
    let count = file.hashPlainPasswords(hashed)
    expect(file.hashPlainPasswords(hashed) == 0, "\(count) passwords were hashed, and some again")
}

private func checkProblems<File>(_ read: () throws -> File) {
    do {
        _ = try read()
    } catch {
        guard let error = error as? SecurityFileError else { preconditionFailure("\(error)") }
        expect(!error.problems.isEmpty && !error.description.isEmpty, "wrong without a reason")
    }
}

private func lines(of bytes: [UInt8]) -> [String] {
    bytes.split(separator: UInt8(ascii: "\n")).map { line in
        String(decoding: line.drop { $0 != UInt8(ascii: ":") }.dropFirst(), as: UTF8.self)
    }
}
