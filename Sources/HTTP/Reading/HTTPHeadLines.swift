/// The lines of a head: every line ends with CRLF, and CR, LF and NUL stand nowhere else.
enum HTTPHeadLines {
    /// The lines of a head that is given without its last empty line, or of one with it; each without its end.
    static func parse(_ head: some Collection<UInt8>) throws(HTTPRefusal) -> [ArraySlice<UInt8>] {
        let bytes = Array(head)
        var lines: [ArraySlice<UInt8>] = []
        var start = 0
        var index = 0
        while index < bytes.count {
            switch bytes[index] {
            case 0x0D:
                guard index + 1 < bytes.count, bytes[index + 1] == 0x0A else {
                    throw .malformed("A carriage return has no line feed after it.")
                }
                lines.append(bytes[start..<index])
                index += 2
                start = index
                continue
            case 0x0A: throw .malformed("A line ends without a carriage return.")
            case 0: throw .malformed("A byte of the request's head is zero.")
            default: index += 1
            }
        }
        if start < bytes.count || lines.isEmpty { lines.append(bytes[start...]) }
        while lines.count > 1, lines.last?.isEmpty == true { lines.removeLast() }
        return lines
    }

    /// Reads lines as fields, RFC 9112, section 5.
    static func fields(_ lines: some Collection<ArraySlice<UInt8>>) throws(HTTPRefusal) -> HTTPFields {
        guard lines.count <= Limits.fieldCountMax else {
            throw HTTPRefusal(.fieldsTooLarge, "The request has more than \(Limits.fieldCountMax) fields.")
        }
        var fields: [HTTPField] = []
        for line in lines { fields.append(try field(line)) }
        return HTTPFields(fields)
    }

    private static func field(_ line: ArraySlice<UInt8>) throws(HTTPRefusal) -> HTTPField {
        if let first = line.first, HTTPText.isBlank(first) { throw .malformed("A field goes on in another line.") }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { throw .malformed("A line of the head is not a field.") }
        let name = line[..<colon]
        guard !name.isEmpty, name.allSatisfy(HTTPText.isToken) else {
            throw .malformed(
                name.last.map(HTTPText.isBlank) == true
                    ? "A space is in front of a field's colon." : "A field's name contains a character that is not allowed.")
        }
        let value = HTTPText.trimmed(line[(colon + 1)...])
        guard value.allSatisfy(HTTPText.isFieldByte) else { throw .malformed("A field's value holds a control byte.") }
        return HTTPField(String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
    }
}
