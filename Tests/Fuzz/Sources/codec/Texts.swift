import FuzzKit
import MQTTCodec

/// A text is judged as the standard library and a plain reading of the standard judge it. A line feed parts a filter
/// from a topic.
func checkText(_ bytes: [UInt8]) {
    let isText = String(validating: bytes, as: UTF8.self) != nil && !bytes.contains(0)
    expect((EncodedString(bytes) != nil) == (isText && bytes.count <= 65_535), "text")
    let isName = isText && !bytes.isEmpty && !bytes.contains(UInt8(ascii: "+")) && !bytes.contains(UInt8(ascii: "#"))
    expect((TopicName(bytes) != nil) == (isName && bytes.count <= 65_535), "topic name")
    let filter = TopicFilter(bytes)
    expect((filter != nil) == (isText && isFilter(bytes) && bytes.count <= 65_535), "topic filter")
    let parts = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, let filter = TopicFilter(parts[0]), let topic = TopicName(parts[1]) else { return }
    expect(filter.matches(topic) == matches(levels(filter.matchingBytes), levels(topic.bytes[...])), "\(filter) and \(topic)")
}

private func levels(_ bytes: ArraySlice<UInt8>) -> [[UInt8]] {
    bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { Array($0) }
}

private func isFilter(_ bytes: [UInt8]) -> Bool {
    var filter = levels(bytes[...])
    if bytes.starts(with: "$share/".utf8) {
        guard filter.count > 2, !filter[1].isEmpty, !filter[1].contains(where: { plus[0] == $0 || hash[0] == $0 }) else {
            return false
        }
        filter.removeFirst(2)
        if filter == [[]] { return false }
    }
    guard filter != [[]] else { return false }
    return filter.enumerated().allSatisfy { index, level in
        if level == plus { return true }
        if level == hash { return index == filter.count - 1 }
        return !level.contains(plus[0]) && !level.contains(hash[0])
    }
}

private func matches(_ filter: [[UInt8]], _ topic: [[UInt8]]) -> Bool {
    if let first = topic.first, first.first == UInt8(ascii: "$"), filter.first == plus || filter.first == hash { return false }
    for (index, level) in filter.enumerated() {
        if level == hash { return true }
        guard index < topic.count, level == plus || level == topic[index] else { return false }
    }
    return filter.count == topic.count
}

private let plus = Array("+".utf8)
private let hash = Array("#".utf8)
