/// The levels of an endpoint's topics.
package struct TopicTemplate: Sendable {
    enum Level: Sendable {
        case text([UInt8])
        case parameter(String, any TopicParameter.Type)

        /// Whether it stands for all that follows.
        var isTail: Bool {
            if case .parameter(_, let type) = self { type is TopicTail.Type } else { false }
        }
    }

    private(set) var levels: [Level] = []

    func adding(text: String) -> TopicTemplate {
        var longer = self
        longer.levels += text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { .text(Array($0)) }
        return longer
    }

    func adding(parameter name: String, _ type: any TopicParameter.Type) -> TopicTemplate {
        var longer = self
        longer.levels.append(.parameter(name, type))
        return longer
    }

    /// The filter of all topics. Throws `ClientError.topic`.
    func filter() throws(ClientError) -> TopicFilter {
        var writer = TopicWriter(self)
        for case .parameter in levels { writer.add(nil) }
        return try writer.filter()
    }

    /// Whether some topic could be one of both: level by level the same text, or a parameter on either side. A
    /// parameter stands for any text here, as it does in subscriptions.
    func overlaps(_ other: TopicTemplate) -> Bool {
        var (left, right) = (levels[...], other.levels[...])
        while let one = left.popFirst() {
            if one.isTail { return true }
            guard let another = right.popFirst() else { return false }
            if another.isTail { return true }
            if case (.text(let text), .text(let otherText)) = (one, another), text != otherText { return false }
        }
        return right.first?.isTail ?? true
    }
}

extension TopicTemplate {
    /// The faults of the topics, whatever their parameters.
    var faults: [String] {
        var faults: [String] = []
        var names: Set<String> = []
        var shortest = TopicWriter(self)
        for case .parameter(let name, _) in levels {
            if !names.insert(name).inserted { faults.append("“\(self)” has two parameters of the name \(name)") }
            shortest.add("0")
        }
        do throws(ClientError) { _ = try shortest.topic() } catch { faults.append("\(error)") }
        return faults
    }
}

extension TopicTemplate: CustomStringConvertible {
    /// Such as home/{room}/temperature.
    package var description: String {
        levels.map { level in
            switch level {
            case .text(let bytes): String(decoding: bytes, as: UTF8.self)
            case .parameter(let name, _): "{\(name)}"
            }
        }.joined(separator: "/")
    }
}

/// Fills in the parameters of a template.
struct TopicWriter {
    private let template: TopicTemplate
    private var bytes: [UInt8] = []
    private var index = 0
    private var fault: ClientError?

    init(_ template: TopicTemplate) {
        self.template = template
        bytes.reserveCapacity(64)
    }

    /// Adds the value of the next parameter, with all texts before it; nil for a wildcard.
    mutating func add(_ value: String?) {
        addTexts()
        guard index < template.levels.count, case .parameter(let name, _) = template.levels[index] else {
            preconditionFailure("a template has as many parameters as its type says")
        }
        let isTail = template.levels[index].isTail
        if isTail, index + 1 < template.levels.count {
            fault = fault ?? .topic("“\(template)”: nothing follows \(name), which is a tail")
        }
        if isTail, value == "" {
            // No level: the topic ends with the one before.
            if index == 0 { fault = fault ?? .topic("\(name) is empty: a topic has at least one level") }
            index += 1
            return
        }
        beginLevel()
        if let value, isTail {
            for (offset, level) in value.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).enumerated() {
                let wrong = Self.fault(in: String(decoding: level, as: UTF8.self), isFirst: index == 0 && offset == 0)
                if let wrong { fault = fault ?? .topic("\(name) is “\(value)”: \(wrong)") }
            }
            bytes += value.utf8
        } else if let value {
            if let wrong = Self.fault(in: value, isFirst: index == 0) { fault = fault ?? .topic("\(name) is “\(value)”: \(wrong)") }
            bytes += value.utf8
        } else {
            bytes.append(UInt8(ascii: isTail ? "#" : "+"))
        }
        index += 1
    }

    mutating func topic() throws(ClientError) -> TopicName {
        addTexts()
        if let fault { throw fault }
        guard let name = TopicName(bytes) else { throw .topic("“\(template)” makes no topic name") }
        return name
    }

    mutating func filter() throws(ClientError) -> TopicFilter {
        addTexts()
        if let fault { throw fault }
        guard let filter = TopicFilter(bytes), !filter.isShared else { throw .topic("“\(template)” makes no topic filter") }
        return filter
    }

    private mutating func addTexts() {
        while index < template.levels.count, case .text(let text) = template.levels[index] {
            beginLevel()
            if text.contains(where: TopicWriter.isWildcard) { fault = fault ?? .topic("“\(template)” has a wildcard in a text") }
            bytes += text
            index += 1
        }
    }

    private mutating func beginLevel() {
        if index > 0 { bytes.append(UInt8(ascii: "/")) }
    }

    private static func isWildcard(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "+") || byte == UInt8(ascii: "#") }

    /// Why a value cannot stand as a level of its own.
    private static func fault(in value: String, isFirst: Bool) -> String? {
        if value.isEmpty { return "a level must not be empty" }
        if value.utf8.contains(where: { isWildcard($0) || $0 == UInt8(ascii: "/") || $0 == 0 }) {
            return "a level has no slash, plus, number sign or null character"
        }
        // $SYS and $share are the server's.
        return isFirst && value.utf8.first == UInt8(ascii: "$") ? "the first level must not begin with a dollar sign" : nil
    }
}

/// Takes the parameters out of a topic.
struct TopicReader {
    private let template: TopicTemplate
    private let topic: TopicName
    private var index = 0
    /// Where the next level begins; beyond the end by more than 1 when there is none.
    private var offset = 0

    init(_ template: TopicTemplate, _ topic: TopicName) { (self.template, self.topic) = (template, topic) }

    /// The value of the next parameter. A level that is not how its value is written (03 for the number 3) has none:
    /// what is published to that value's topic goes elsewhere.
    mutating func next<Value: TopicParameter>(_ type: Value.Type) throws(ClientError) -> Value {
        try passTexts()
        let isTail = index < template.levels.count && template.levels[index].isTail
        guard let level = isTail ? rest() : nextLevel() else { throw mismatch }
        index += 1
        let text = String(decoding: topic.bytes[level], as: UTF8.self)
        guard let value = Value(topicLevel: text), value.topicLevel == text else {
            throw .undecodable("topic “\(topic)”: “\(text)” is no \(Value.self)")
        }
        return value
    }

    /// Checks that nothing follows but what should.
    mutating func finish() throws(ClientError) {
        try passTexts()
        guard index == template.levels.count, offset == topic.bytes.count + 1 else { throw mismatch }
    }

    private mutating func passTexts() throws(ClientError) {
        while index < template.levels.count, case .text(let text) = template.levels[index] {
            guard let level = nextLevel(), topic.bytes[level].elementsEqual(text) else { throw mismatch }
            index += 1
        }
    }

    private mutating func nextLevel() -> Range<Int>? {
        guard offset <= topic.bytes.count else { return nil }
        let end = topic.bytes[offset...].firstIndex(of: UInt8(ascii: "/")) ?? topic.bytes.count
        defer { offset = end + 1 }
        return offset..<end
    }

    /// All levels that are left, perhaps none.
    private mutating func rest() -> Range<Int> {
        defer { offset = topic.bytes.count + 1 }
        return min(offset, topic.bytes.count)..<topic.bytes.count
    }

    private var mismatch: ClientError { .undecodable("topic “\(topic)” is none of “\(template)”") }
}
