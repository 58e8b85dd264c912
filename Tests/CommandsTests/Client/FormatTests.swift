import MQTTCodec
import Testing

@testable import Commands

@Suite struct FormatTests {
    private let time = LocalTime(seconds: 1_588_799_280, nanoseconds: 7_654_321)

    private func printed(_ format: String, _ message: PrintableMessage) throws -> String {
        String(decoding: try MessageFormat(format).print(message, at: time, isPretty: false).bytes, as: UTF8.self)
    }

    private var message: PrintableMessage {
        var properties = Properties()
        properties.contentType = "text/plain"
        properties.responseTopic = "r/t"
        properties.correlationData = [0x64, 0x00]
        properties.messageExpiryInterval = 4_000_000_000
        properties.payloadFormatIndicator = 1
        properties.subscriptionIdentifiers = [7, 9]
        properties.userProperties = [UserProperty(name: "a", value: "b"), UserProperty(name: "c", value: "d")]
        return PrintableMessage(
            topic: "home/é", payload: Array("hello".utf8), qos: .atLeastOnce, retain: true, packetIdentifier: 42,
            properties: properties)
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let format: String
        let result: String

        init(_ format: String, _ result: String) { (self.format, self.result) = (format, result) }

        var testDescription: String { format }
    }

    static let cases: [Case] = [
        Case("", ""), Case("plain", "plain"), Case("%%%t", "%home/é"),
        Case("%p %q %r %m %l", "hello 1 1 42 5"), Case("%x %X", "68656c6c6f 68656C6C6F"),
        Case("[%10t]", "[   home/é]"), Case("[%-10t]", "[home/é   ]"), Case("[%.4t]", "[home]"), Case("[%-6.4t]", "[home  ]"),
        Case("[%6.4t]", "[  home]"),
        Case("[%5m]", "[   42]"), Case("[%05m]", "[00042]"), Case("[%-5m]", "[42   ]"), Case("[%-05m]", "[42   ]"),
        Case("[%8p]", "[   hello]"), Case("[%08p]", "[000hello]"), Case("[%-8p]", "[hello   ]"), Case("[%3p]", "[hel]"),
        Case("%C %R %E %F %S", "text/plain r/t 4000000000 1 7"), Case("[%3A]", "[   ]"), Case("[%03A]", "[000]"),
        Case("%P", "a:b c:d"), Case("\\\\\\n\\t\\e\\a\\r\\v", "\\\n\t\u{1B}\u{07}\r\u{0B}"), Case("@@@N", "@007654321"),
        Case("%U", "1588799280.007654321"),
        Case("@s", "1588799280"),
    ]

    @Test(arguments: cases)
    func `Each part of a format is what mosquitto_sub makes of it`(example: Case) throws {
        #expect(try printed(example.format, message) == example.result)
    }

    @Test func `Bytes that are no text pass`() throws {
        let format = try MessageFormat("%D\\0%p")
        var message = message
        message.payload = [0xFF, 0]
        #expect(format.print(message, at: time, isPretty: false).bytes == [0x64, 0, 0, 0xFF, 0])
    }

    @Test func `Properties that are absent leave their width`() throws {
        let bare = PrintableMessage(topic: "t")
        #expect(try printed("[%4C][%2E][%02F][%3R][%P][%D]", bare) == "[    ][  ][00][][][]")
    }

    struct JSONCase: Sendable, CustomTestStringConvertible {
        let payload: String
        /// nil where it is no JSON.
        let result: String?

        init(_ payload: String, _ result: String?) { (self.payload, self.result) = (payload, result) }

        var testDescription: String { payload }
    }

    /// From mosquitto_sub -F %J.
    static let json: [JSONCase] = [
        JSONCase(
            #"{"b":1.0,"a":[1,2.5e3,-0,1e400,0.1,123456789012345678,1E2,"\u00e9\n\/"],"n":null,"t":true, "o":{ } ,"e":[]}"#,
            #"{"b":1,"a":[1,2500,-0,null,0.1,1.2345678901234568e+17,100,"é\n/"],"n":null,"t":true,"o":{},"e":[]}"#),
        JSONCase("27.0", "27"), JSONCase("not json", nil), JSONCase(#" "x" "#, #""x""#),
        JSONCase(#"[1, 2,{"a":"\ud83d\ude00"}]"#, #"[1,2,{"a":"😀"}]"#), JSONCase("1e5", "100000"),
        JSONCase("0.30000000000000004", "0.3"), JSONCase("100000000000000000000", "1e+20"),
        JSONCase(#"{"a":1,"a":2}"#, #"{"a":1,"a":2}"#), JSONCase(#""\u0000x""#, #""""#),
        JSONCase(#""a\u0041\u001f\b\f""#, #""aA\u001f\b\f""#), JSONCase("01", "1"), JSONCase("1.", "1"), JSONCase("-", nil),
        JSONCase("[1,]", nil), JSONCase(#"{"a":1,}"#, nil), JSONCase(#""\x""#, nil), JSONCase("\u{FEFF}1", "1"),
        JSONCase(#""\ud800""#, nil), JSONCase("\"a\tb\"", #""a\tb""#), JSONCase("1 2", nil), JSONCase("nul", nil),
    ]

    @Test(arguments: json)
    func `JSON is read and written as mosquitto_sub does`(example: JSONCase) {
        let value = CJSONValue(reading: Array(example.payload.utf8))
        #expect(value.map { String(decoding: $0.bytes(isPretty: false), as: UTF8.self) } == example.result)
    }

    @Test func `JSON on several lines has cJSON's form`() throws {
        let value = try #require(CJSONValue(reading: Array(#"{"a":[1,2500,{"x":[]}],"o":{ }}"#.utf8)))
        #expect(
            String(decoding: value.bytes(isPretty: true), as: UTF8.self)
                == "{\n\t\"a\":\t[1, 2500, {\n\t\t\t\"x\":\t[]\n\t\t}],\n\t\"o\":\t{\n\t}\n}")
    }

    @Test func `JSON that is nested without end is refused, not followed`() {
        #expect(CJSONValue(reading: [UInt8](repeating: UInt8(ascii: "["), count: 100_000)) == nil)
        let deep = [UInt8](repeating: UInt8(ascii: "["), count: 1000) + [UInt8](repeating: UInt8(ascii: "]"), count: 1000)
        #expect(CJSONValue(reading: deep) != nil)
        #expect(CJSONValue(reading: [UInt8(ascii: "[")] + deep + [UInt8(ascii: "]")]) == nil)
    }

    @Test func `A message as JSON holds what the manual says`() throws {
        let line = String(decoding: JSONLine.bytes(of: message, at: time), as: UTF8.self)
        #expect(line.hasPrefix("{\"time\":\"20"))
        #expect(
            line.hasSuffix(
                #""topic":"home/é","payload":"hello","qos":1,"retain":true,"duplicate":false,"packet_identifier":42,"properties":{"payload_format_indicator":1,"message_expiry_interval":4000000000,"content_type":"text/plain","response_topic":"r/t","correlation_data":"d\u0000","subscription_identifiers":[7,9],"user_properties":[["a","b"],["c","d"]]}}"#
            ), "\(line)")
        let bytes = JSONLine.bytes(of: PrintableMessage(topic: "t", payload: [0xFF, 0xFE]), at: time)
        #expect(String(decoding: bytes, as: UTF8.self).contains(#""payload_base64":"//4=""#))
    }

    @Test(arguments: [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")])
    func `Base64 is that of RFC 4648`(text: String, encoded: String) {
        #expect(String(decoding: JSONLine.base64(Array(text.utf8)), as: UTF8.self) == encoded)
    }

    @Test func `Without a payload there is nothing, or null`() throws {
        var arguments = try #require(try run("-t a"))
        let empty = PrintableMessage(topic: "a")
        #expect(MessagePrinter(arguments).print(empty, at: time).bytes == [])
        arguments = try #require(try run("-t a -v"))
        #expect(MessagePrinter(arguments).print(empty, at: time).bytes == Array("a (null)\n".utf8))
        arguments = try #require(try run("-t a -v -N"))
        #expect(MessagePrinter(arguments).print(empty, at: time).bytes == [])
        #expect(MessagePrinter(arguments).print(PrintableMessage(topic: "a", payload: [0x78]), at: time).bytes == Array("a x".utf8))
    }

    private func run(_ line: String) throws -> ClientArguments? {
        guard case .run(let arguments) = try ClientArguments.read(line.split(separator: " ").map(String.init), for: .sub) else {
            return nil
        }
        return arguments
    }

    /// What an attacker publishes: a title, a cursor that goes up, C1 and bidi, and bytes that are no UTF-8.
    private static let attack = "\u{1B}]0;title\u{07}\u{1B}[1A\r\u{9B}2J\u{202E}evil\u{2066}\u{7F}"
    private static let attackBytes = Array(attack.utf8) + [0x9B, 0x33, 0x31, 0x6D]

    private static func isHarmless(_ bytes: [UInt8]) -> Bool {
        guard let text = String(validating: bytes, as: UTF8.self) else { return false }
        return text.unicodeScalars.allSatisfy {
            $0 == "\n" || $0 == "\t"
                || !($0.value < 32 || (127..<160).contains($0.value) || (0x202A...0x202E).contains($0.value)
                    || (0x2066...0x2069).contains($0.value))
        }
    }

    @Test(arguments: ["-v", "", "-N", "--json", "-F %t|%p|%10.30p|%C|%R|%D|%P", "-F %j", "-F %t", "-F %x"])
    func `on a terminal nothing of a message does anything to it, and elsewhere bytes stay as they are`(words: String) throws {
        let arguments = try #require(try run("-t # \(words)"))
        var message = self.message
        message.topic = try #require(TopicName("a/\(Self.attack)\nb"))
        message.payload = Self.attackBytes + Array("\nnext\tline".utf8)
        message.properties.contentType = EncodedString(Self.attack)
        message.properties.correlationData = Self.attackBytes
        message.properties.userProperties = [UserProperty(name: "n", value: try #require(EncodedString(Self.attack)))]
        let shown = MessagePrinter(arguments, isForTerminal: true).print(message, at: time).bytes
        #expect(Self.isHarmless(shown), "\(shown)")
        #expect(!String(decoding: shown, as: UTF8.self).contains("\nb"), "a topic has no line of its own")
        let piped = MessagePrinter(arguments).print(message, at: time).bytes
        if words == "-v" { #expect(piped == message.topic.bytes + [0x20] + message.payload + [0x0A]) }
        if words == "-v" { #expect(String(decoding: shown, as: UTF8.self).hasSuffix("31m\nnext\tline\n")) }
    }

    @Test func `on a terminal JSON stays the same JSON, and the format's own escapes act`() throws {
        var message = PrintableMessage(topic: "a", payload: Array("\u{9B}\u{202E}é".utf8))
        let json = try MessageFormat("%j").print(message, at: time, isPretty: false, isForTerminal: true)
        #expect(String(decoding: json.bytes, as: UTF8.self).hasSuffix(#""payload":"\u009b\u202eé"}"#))
        message.payload = Array("\u{1B}[0m".utf8)
        let coloured = try MessageFormat("\\e[31m%p\\e[0m").print(message, at: time, isPretty: false, isForTerminal: true)
        #expect(String(decoding: coloured.bytes, as: UTF8.self) == "\u{1B}[31m\u{241B}[0m\u{1B}[0m")
    }
}
