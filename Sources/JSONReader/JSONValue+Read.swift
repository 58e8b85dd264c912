internal import CJansson
public import JSON

/// Why bytes are no JSON that is taken.
public struct JSONError: Error, Equatable, CustomStringConvertible {
    /// In words, with the line.
    public let description: String
}

extension JSONValue {
    /// Reads one value of any kind: UTF-8 without a mark in front, at most `Limits.depthMax` arrays and objects in each
    /// other, no name twice in an object, no number that a double or 64 bits do not hold.
    ///
    /// - Parameters:
    ///   - bytes: all of the text.
    ///   - bytesMax: more are refused before they are looked at; nil for the usual bound.
    public init(reading bytes: [UInt8], bytesMax: Int? = nil) throws(JSONError) {
        let bytesMax = bytesMax ?? Limits.bytesMax
        guard bytes.count <= bytesMax else { throw JSONError(description: "more than \(bytesMax) bytes") }
        guard Self.depth(of: bytes) <= Limits.depthMax else {
            throw JSONError(description: "more than \(Limits.depthMax) arrays and objects in each other")
        }
        var error = json_error_t()
        let flags = Int(JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL)
        let root = bytes.withUnsafeBytes { bytes in
            json_loadb(bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count, flags, &error)
        }
        guard let root else {
            throw JSONError(description: "line \(max(1, error.line)): \(String(cString: jansson_words(&error)))")
        }
        defer { jansson_release(root) }
        self = Self.value(of: root)
    }

    /// How many arrays and objects stand in each other at the deepest place: jansson's own bound is 2,048. Brackets in
    /// strings do not count.
    private static func depth(of bytes: [UInt8]) -> Int {
        var (depth, deepest, isInString, isEscaped) = (0, 0, false, false)
        for byte in bytes {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                deepest = max(deepest, depth)
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            default: break
            }
        }
        return deepest
    }

    private static func value(of json: OpaqueValue) -> JSONValue {
        switch jansson_kind(json) {
        case JSON_OBJECT: return .object(members(of: json))
        case JSON_ARRAY:
            return .array((0..<json_array_size(json)).compactMap { json_array_get(json, $0) }.map { value(of: $0) })
        case JSON_STRING: return .string(text(json_string_value(json), json_string_length(json)))
        case JSON_INTEGER: return .integer(json_integer_value(json))
        case JSON_REAL: return .number(json_real_value(json))
        case JSON_TRUE: return .boolean(true)
        case JSON_FALSE: return .boolean(false)
        default: return .null
        }
    }

    private static func members(of json: OpaqueValue) -> JSONMembers {
        var members: [(name: String, value: JSONValue)] = []
        var place = json_object_iter(json)
        while let here = place {
            if let name = json_object_iter_key(here), let member = json_object_iter_value(here) {
                members.append((String(cString: name), value(of: member)))
            }
            place = json_object_iter_next(json, here)
        }
        return JSONMembers(members)
    }

    private static func text(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
        String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }

    private typealias OpaqueValue = UnsafeMutablePointer<json_t>
}

/// The bounds of what is read, each with its unit and what happens beyond it.
enum Limits {
    /// Arrays and objects in each other: deeper JSON is refused.
    static let depthMax = 32

    /// Bytes of a text: a longer one is refused before it is looked at.
    static let bytesMax = 16 << 20
}
