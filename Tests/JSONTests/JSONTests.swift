import JSON
import JSONReader
import Testing

@Suite struct JSONTests {
    private func read(_ text: String) -> JSONValue? { try? JSONValue(reading: Array(text.utf8)) }

    @Test func `an object is written in the order in which its members were set`() {
        var inner = JSONObject()
        inner.set("n", UInt64(7))
        var object = JSONObject()
        object.set("text", "a\"b\\c\n\u{1}\u{7f}ü")
        object.set("flag", true)
        object.set("half", 0.5)
        object.set("none", Double.nan)
        object.set("numbers", [1, 2])
        object.set("words", ["x", "y\t"])
        object.set("inner", inner)
        object.set("list", [inner, inner])
        object.set("absent", orNull: String?.none)
        object.set("there", orNull: 3)
        object.set("curve", orNulls: [1, nil, .infinity])
        #expect(
            object.text
                == #"{"text":"a\"b\\c\n\u0001\u007fü","flag":true,"half":0.5,"none":null,"numbers":[1,2],"words":["x","y\t"],"#
                + #""inner":{"n":7},"list":[{"n":7},{"n":7}],"absent":null,"there":3,"curve":[1.0,null,null]}"#)
        #expect(read(object.text)?.object?.names.count == 11)
    }

    @Test func `what is written comes back`() throws {
        let text = String(String.UnicodeScalarView((0...0x2FF).compactMap(Unicode.Scalar.init))) + "\u{2028}\u{1F600}\u{10FFFF}"
        for style in [JSONStyle.plain, .cJSON, .cJSONLines] {
            var writer = JSONWriter(style)
            writer.add(text)
            #expect(read(String(decoding: writer.bytes, as: UTF8.self)) == .string(text))
        }
    }

    @Test func `cJSON's escapes are its own`() {
        func written(_ style: JSONStyle) -> String {
            var writer = JSONWriter(style)
            writer.add("\u{8}\u{c}\n\r\t\u{1f}\u{7f}\"\\/")
            return String(decoding: writer.bytes, as: UTF8.self)
        }
        #expect(written(.plain) == #""\u0008\u000c\n\r\t\u001f\u007f\"\\/""#)
        #expect(written(.cJSON) == #""\b\f\n\r\t\u001f\#u{7f}\"\\/""#)
    }

    @Test func `cJSON's lines have a member each`() {
        var writer = JSONWriter(.cJSONLines)
        writer.object { root in
            root.object("empty") { _ in }
            root.array("list") { list in
                list.add(1)
                list.object { $0.set("a", true) }
                list.array { _ in }
            }
            root.set("n", .null)
        }
        #expect(
            String(decoding: writer.bytes, as: UTF8.self)
                == "{\n\t\"empty\":\t{\n\t},\n\t\"list\":\t[1, {\n\t\t\t\"a\":\ttrue\n\t\t}, []],\n\t\"n\":\tnull\n}")
    }

    @Test func `every kind of value is read`() {
        #expect(read(" null ") == .null)
        #expect(read("[true,false]") == .array([.boolean(true), .boolean(false)]))
        #expect(read("-12") == .integer(-12))
        #expect(read("1e3")?.integer == 1000)
        #expect(read("1.5")?.integer == nil)
        #expect(read(#""\u00fc\ud83d\ude00\u0000""#) == .string("ü😀\0"))
        #expect(read(#"{"b":{},"a":[]}"#)?.object?.names == ["b", "a"])
        #expect(read(#"{"a":1}"#)?.object?["a"]?.integer == 1)
        #expect(read(#"{"a":1}"#)?.object?["b"] == nil)
    }

    @Test(arguments: [
        "", " ", "{", "[1,]", "{\"a\":}", "{a:1}", "'a'", "01", "+1", ".5", "1.", "NaN", "Infinity", "nul", "[1] 2", "\u{FEFF}1",
        "\"\t\"", "\"\\x\"", "\"\\u12\"", "/* */1", "tru\u{e9}",
    ])
    func `what is no JSON is refused`(text: String) { #expect(read(text) == nil) }

    @Test(arguments: [#""\ud800""#, #""\udc00""#, #""\ud800\ud800""#, #""\ud800x""#])
    func `half a surrogate pair is refused`(text: String) { #expect(read(text) == nil) }

    @Test(
        arguments: [
            [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xFF], [0xE2, 0x82], [0x80],
            [0xF8, 0x88, 0x80, 0x80, 0x80],
        ] as [[UInt8]])
    func `bytes that are no UTF-8 are refused`(bytes: [UInt8]) {
        #expect(throws: JSONError.self) { try JSONValue(reading: [0x22] + bytes + [0x22]) }
    }

    @Test func `a name that stands twice is refused, one that only looks the same is not`() {
        #expect(read(#"{"a":1,"a":1}"#) == nil)
        #expect(read(#"{"a":1,"\u0061":2}"#) == nil)
        let twins = read(#"{"\u00e9":1,"e\u0301":2,"A":3,"a":4}"#)?.object
        #expect(twins?["\u{e9}"]?.integer == 1)
        #expect(twins?["e\u{301}"]?.integer == 2)
        #expect(twins?["A"]?.integer == 3)
    }

    @Test func `numbers that do not fit are refused`() {
        #expect(read("9223372036854775807") == .integer(.max))
        #expect(read("-9223372036854775808") == .integer(.min))
        #expect(read("9223372036854775808") == nil)
        #expect(read("1e309") == nil)
        #expect(read("1e400000000000") == nil)
        #expect(read(String(repeating: "9", count: 100_000)) == nil)
    }

    @Test func `depth is bounded, brackets in strings are not depth`() {
        func nested(_ depth: Int) -> String { String(repeating: "[", count: depth) + String(repeating: "]", count: depth) }
        #expect(read(nested(32)) != nil)
        #expect(read(nested(33)) == nil)
        #expect(read(String(repeating: "[", count: 1_000_000)) == nil)
        #expect(read(String(repeating: #"{"a":"#, count: 33)) == nil)
        let brackets = String(repeating: "[{", count: 100)
        #expect(read(#"["\\","\"\#(brackets)"]"#) == .array([.string("\\"), .string("\"" + brackets)]))
    }

    @Test func `an error says where`() throws {
        let error = #expect(throws: JSONError.self) { try JSONValue(reading: Array("{\n\"a\": x}".utf8)) }
        #expect(try #require(error).description.hasPrefix("line 2: "))
    }
}
