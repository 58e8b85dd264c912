/// mosquitto's `psk_file`: `identity:HEXKEY` on each line, for TLS without certificates.
public struct PreSharedKeyFile: Sendable {
    /// Warnings of what is probably not meant as it stands.
    public let warnings: [SecurityFileProblem]
    private let keys: [[UInt8]: [UInt8]]

    /// Reads the file at `path`.
    public init(path: String) throws(SecurityFileError) {
        try self.init(SecurityFileReader.contents(of: path), file: path)
    }

    /// Reads the bytes of a file; `file` is what messages call it.
    public init(_ bytes: [UInt8], file: String) throws(SecurityFileError) {
        var lines = SecurityFileLines(bytes, file: file)
        var keys: [[UInt8]: [UInt8]] = [:]
        for line in lines.lines {
            guard let colon = line.text.firstIndex(of: UInt8(ascii: ":")) else {
                lines.report(
                    "the line has no colon between an identity and a key, and is passed over.", line: line.number,
                    severity: .warning)
                continue
            }
            let identity = Array(line.text[..<colon].trimmedBlanks)
            let digits = line.text[(colon + 1)...].trimmedBlanks
            if identity.isEmpty {
                lines.report("the identity is empty.", line: line.number)
            } else if digits.isEmpty {
                lines.report("the key is empty.", line: line.number)
            } else if keys[identity] != nil {
                lines.report(
                    "the identity \(String(decoding: identity, as: UTF8.self)) is in the file twice.", line: line.number)
            } else if let key = Self.key(digits) {
                keys[identity] = key
            } else {
                lines.report(
                    "the key is not a sequence of at most \(Limits.preSharedKeyBytesMax) bytes as hexadecimal digits.",
                    line: line.number)
            }
        }
        try lines.check()
        warnings = lines.problems
        self.keys = keys
    }

    /// The key of an identity, nil for one that the file does not have.
    public func key(for identity: [UInt8]) -> [UInt8]? { keys[identity] }

    public var count: Int { keys.count }

    private static func key(_ digits: ArraySlice<UInt8>) -> [UInt8]? {
        guard digits.count <= 2 * Limits.preSharedKeyBytesMax else { return nil }
        var values: [UInt8] = []
        for digit in digits {
            guard let value = Character(UnicodeScalar(digit)).hexDigitValue else { return nil }
            values.append(UInt8(value))
        }
        // An odd number of digits lacks the first one's zero, as OpenSSL reads numbers.
        if !values.count.isMultiple(of: 2) { values.insert(0, at: 0) }
        return stride(from: 0, to: values.count, by: 2).map { values[$0] << 4 | values[$0 + 1] }
    }
}
