extension BridgeTopic {
    /// Why a `topic` line is refused.
    struct Refusal: Error, Equatable {
        /// A sentence.
        let message: String
    }

    /// What a `topic` line says.
    struct Line: Equatable {
        var topic: BridgeTopic
        /// What there is to say of it, as a sentence.
        var remark: String?
    }

    /// Reads the value of a `topic` line: `PATTERN [DIRECTION [QOS [LOCAL-PREFIX [REMOTE-PREFIX]]]] [# COMMENT]`. A word that begins with a
    /// double quote runs to the next one, so that it may hold blanks or nothing.
    static func parse(_ text: String) -> Result<Line, Refusal> {
        guard let (words, comment) = quotedWords(text) else { return .failure(Refusal(message: "a double quote is not closed.")) }
        guard let pattern = words.first else { return .failure(Refusal(message: "Empty topic value in configuration.")) }
        guard words.count <= 5 else {
            return .failure(Refusal(message: "found \(words[5].quoted) after the remote prefix, expected the end of the line."))
        }
        var topic = BridgeTopic(pattern: pattern)
        if words.count > 1 {
            guard let direction = Direction(rawValue: words[1].lowercased()) else {
                return .failure(Refusal(message: "found \(words[1].quoted), expected the direction out, in or both."))
            }
            topic.direction = direction
        }
        if words.count > 2 {
            guard let qos = UInt8(words[2]), qos <= 2 else {
                return .failure(Refusal(message: "found \(words[2].quoted), expected the QoS 0, 1 or 2."))
            }
            topic.qos = qos
        }
        if words.count > 3 { topic.localPrefix = words[3] }
        if words.count > 4 { topic.remotePrefix = words[4] }
        if let message = topic.complaint { return .failure(Refusal(message: message)) }
        // Behind the last prefix mosquitto passes over all that follows.
        guard let comment, words.count < 5 else { return .success(Line(topic: topic)) }
        return .success(
            Line(topic: topic, remark: "\(comment.quoted) is taken for a comment; mosquitto would take it for a part of the line."))
    }

    /// Says what is wrong with the combination, as a sentence; nil when nothing is.
    private var complaint: String? {
        if pattern.isEmpty && (localPrefix.isEmpty || remotePrefix.isEmpty) {
            return "an empty pattern needs a local and a remote prefix."
        }
        if !pattern.isEmpty && !isFilter(pattern) {
            return "found \(pattern.quoted), expected a topic filter, with + and # as whole levels and # as the last one."
        }
        for prefix in [localPrefix, remotePrefix] where prefix.contains("+") || prefix.contains("#") {
            return "found \(prefix.quoted), expected a prefix without the wildcards + and #."
        }
        return nil
    }

    /// Wildcards are whole levels, and # is the last one.
    private func isFilter(_ text: String) -> Bool {
        let levels = text.split(separator: "/", omittingEmptySubsequences: false)
        for (index, level) in levels.enumerated() {
            if level.contains("#") && (level != "#" || index != levels.count - 1) { return false }
            if level.contains("+") && level != "+" { return false }
        }
        return true
    }

    /// The words of a line, and the comment behind them; nil if a quote stays open. A comment begins with a #, which only the pattern may begin
    /// with too.
    private static func quotedWords(_ text: String) -> (words: [String], comment: String?)? {
        var words: [String] = []
        var rest = text[...]
        while true {
            rest = rest.drop { $0 == " " || $0 == "\t" }
            guard let first = rest.first else { return (words, nil) }
            if first == "#", !words.isEmpty { return (words, String(rest)) }
            if first == "\"" {
                rest = rest.dropFirst()
                guard let end = rest.firstIndex(of: "\"") else { return nil }
                words.append(String(rest[..<end]))
                rest = rest[rest.index(after: end)...]
            } else {
                let word = rest.prefix { $0 != " " && $0 != "\t" }
                words.append(String(word))
                rest = rest[word.endIndex...]
            }
        }
    }
}
