import Configuration
import TestBasics
import Testing

@Suite struct NoiseTests {
    @Test(arguments: 0..<200 as Range<UInt64>)
    func `random bytes never trap`(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let count = Int.random(in: 0..<2000, using: &generator)
        let alphabet = Array("#\n\r \t\"${}/+:[]0129-,aé".utf8) + [0, 0x80, 0xFF, 0xEF, 0xBB, 0xBF]
        let bytes = (0..<count).map { _ in
            Bool.random(using: &generator)
                ? alphabet.randomElement(using: &generator) ?? 0 : UInt8.random(in: 0...255, using: &generator)
        }
        _ = readBytes(bytes)
    }

    @Test(arguments: 0..<200 as Range<UInt64>)
    func `names of options with random values never trap`(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let values = [
            "", "0", "-1", "9223372036854775807", "-9223372036854775808", "true", "\"", "\"\" in 0 a b", "${", "${X}", "#", "1,2",
            "[", "[]", ":", "a:b:c", "é\u{301}", "9223372036854775807y", "file", "0 /s", "1883 ::", "interval 9", "\u{301}",
            "1 2 3",
        ]
        var text = "martlet_expand_environment true\n"
        for _ in 0..<60 {
            let name = ConfigurationOption.all.randomElement(using: &generator)?.name ?? ""
            text += name + (name.hasSuffix("_") ? "x" : "") + " " + (values.randomElement(using: &generator) ?? "") + "\n"
        }
        _ = read(text, environment: ["X": "1"])
    }

    @Test func `a file cut off anywhere never traps`() {
        let bytes = Array(ConfigurationTemplate.text.replacingComments.utf8)
        for count in stride(from: 0, through: bytes.count, by: 7) { _ = readBytes(Array(bytes[..<count])) }
    }

    private func readBytes(_ bytes: [UInt8]) -> ConfigurationResult {
        var files = MemoryFiles()
        files.files["m.conf"] = bytes
        return ConfigurationReader(files: files, environment: [:]).read(path: "m.conf")
    }
}

extension String {
    /// The example file with every commented option as a line that counts, as far as it has a default.
    fileprivate var replacingComments: String {
        split(separator: "\n").map { $0.hasPrefix("#") && !$0.hasPrefix("# ") ? String($0.dropFirst()) : String($0) }
            .joined(separator: "\n")
    }
}
