/// The fields in the head of an HTTP message, in the order in which they came, names in lower case.
struct HTTPFields {
    private var fields: [(name: String, value: String)] = []

    /// Reads the lines behind the first; nil when one of them is no field.
    init?(_ lines: some Sequence<ArraySlice<UInt8>>) {
        for line in lines {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
                line[..<colon].allSatisfy({ $0 > 0x20 && $0 < 0x7F })
            else { return nil }
            fields.append((String(decoding: line[..<colon], as: UTF8.self).lowercased(), Self.trimmed(line[(colon + 1)...])))
        }
    }

    /// The lines of a head, without their ends.
    static func lines(of head: some Sequence<UInt8>) -> [ArraySlice<UInt8>] {
        Array(head).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            .map { $0.last == UInt8(ascii: "\r") ? $0.dropLast() : $0 }
    }

    /// The value of a field, several of the same name joined by commas; nil when there is none.
    subscript(name: String) -> String? {
        let values = fields.filter { $0.name == name }.map(\.value)
        return values.isEmpty ? nil : values.joined(separator: ",")
    }

    /// How often a field stands there.
    func count(of name: String) -> Int { fields.count { $0.name == name } }

    /// The parts of a field whose value is a list.
    func list(_ name: String) -> [String] {
        (self[name] ?? "").utf8.split(separator: UInt8(ascii: ",")).map { Self.trimmed($0) }
    }

    private static func trimmed(_ bytes: some BidirectionalCollection<UInt8>) -> String {
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
        let front = bytes.drop(while: isBlank)
        guard let last = front.lastIndex(where: { !isBlank($0) }) else { return "" }
        return String(decoding: front[...last], as: UTF8.self)
    }
}
