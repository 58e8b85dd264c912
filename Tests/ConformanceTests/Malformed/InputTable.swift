import Glibc
import MQTTCodec

/// The cases written by hand in Cases/*.txt, one line each; the integration tests read the same files.
///
///     versions | stage | bytes | answer | what it is
///
/// - versions: some of `3.1`, `3.1.1` and `5`, apart by spaces.
/// - stage: `fresh` or `connected`.
/// - bytes: the notation of `Frame`.
/// - answer: bytes that come first, if any, then `open`, `close`, `connack CODE` or `disconnect CODE`; codes from 80 on
///   are `close` before 5.0.
enum InputTable {
    static let names = ["connect", "publish", "acknowledgement", "subscribe", "other"]

    /// The cases of Cases/`name`.txt.
    static func read(_ name: String) -> [InputCase] {
        text(ofFile: "\(folder)/\(name).txt").split(separator: "\n").flatMap { line -> [InputCase] in
            if line.hasPrefix("#") { return [] }
            let columns = line.split(separator: "|").map { $0.trimming() }
            guard columns.count == 5, let stage = InputCase.Stage(rawValue: columns[1]) else {
                preconditionFailure("not a case: \(line)")
            }
            return columns[0].split(separator: " ").map { text in
                let version = version(text)
                return InputCase(version, stage, Frame(columns[2], version).bytes, answer(columns[3], version), columns[4])
            }
        }
    }

    private static func version(_ text: Substring) -> ProtocolVersion {
        switch text {
        case "3.1": .v31
        case "3.1.1": .v311
        case "5": .v5
        default: preconditionFailure("not a version: \(text)")
        }
    }

    private static func answer(_ text: String, _ version: ProtocolVersion) -> InputCase.Answer {
        var words = text.split(separator: " ").map(String.init)
        let end: InputCase.End
        switch words.removeLast() {
        case "open": end = .open
        case "close": end = .close
        case let digits:
            guard let code = UInt8(digits, radix: 16), let kind = words.popLast() else { preconditionFailure("no answer: \(text)") }
            end = kind == "connack" ? .connack(code) : .disconnect(code)
        }
        return InputCase.Answer(bytes: Frame(words.joined(separator: " "), version).bytes, end: end)
    }

    private static var folder: String {
        let parts = #filePath.split(separator: "/").dropLast()
        return "/" + parts.joined(separator: "/") + "/Cases"
    }

    private static func text(ofFile path: String) -> String {
        guard let file = fopen(path, "r") else { preconditionFailure("no file \(path)") }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var byte = fgetc(file)
        while byte != EOF {
            bytes.append(UInt8(truncatingIfNeeded: byte))
            byte = fgetc(file)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension Substring {
    fileprivate func trimming() -> String {
        String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }
}
