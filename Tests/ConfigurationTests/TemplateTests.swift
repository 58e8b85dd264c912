import Configuration
import Testing

/// config/martlet.conf, two directories above this file's own.
private let examplePath: String = {
    let source = #filePath.split(separator: "/", omittingEmptySubsequences: false)
    return source.dropLast(3).joined(separator: "/") + "/config/martlet.conf"
}()

@Suite struct TemplateTests {
    @Test func `config/martlet.conf is the template, made from the table`() throws {
        let bytes = try DiskFiles().contents(ofFile: examplePath, bytesMax: 1 << 20)
        #expect(String(decoding: bytes, as: UTF8.self) == ConfigurationTemplate.text)
    }

    @Test func `config/martlet.conf reads without a diagnostic, as a broker for this machine`() {
        let result = ConfigurationReader(files: DiskFiles(), environment: [:]).read(path: examplePath)
        #expect(result.texts == [])
        #expect(result.configuration.listeners.map(\.endpoint) == [.tcp(port: 1883, host: "127.0.0.1")])
        #expect(result.configuration.security.allowsAnonymous)
    }

    @Test func `a commented default changes nothing when its comment sign is taken away`() {
        let plain = read(ConfigurationTemplate.text).configuration
        let lines = ConfigurationTemplate.text.split(separator: "\n").map(String.init)
        let options = lines.filter { $0.hasPrefix("#") && !$0.hasPrefix("# ") && $0.count > 1 }.map { String($0.dropFirst()) }
        #expect(options.count > 70)
        for line in options {
            let name = String(line.split(separator: " ")[0])
            guard let option = ConfigurationOption.named(name), let text = option.defaultText else { continue }
            #expect(line == "\(name) \(text)")
            let result = read(ConfigurationTemplate.text.replacing("#" + line + "\n", with: line + "\n", once: true))
            #expect(result.texts == [], "\(line)")
            #expect(result.configuration == plain, "\(line)")
        }
    }
}

extension String {
    /// The text with the first occurrence of `part` replaced.
    fileprivate func replacing(_ part: String, with other: String, once: Bool) -> String {
        guard let start = indices.first(where: { self[$0...].hasPrefix(part) }) else { return self }
        return self[..<start] + other + self[index(start, offsetBy: part.count)...]
    }
}
