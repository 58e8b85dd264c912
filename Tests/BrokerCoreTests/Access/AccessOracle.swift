import MQTTCodec

@testable import BrokerModel

/// mosquitto's evaluation written down as it reads: line by line, lines that deny first. Plain and slow on purpose.
struct AccessOracle {
    /// A line of a file, of which the oracle keeps the text.
    struct Line {
        let permission: AccessPermission
        let filter: String
    }

    let own: [Line]
    let patterns: [Line]
    let clientIdentifier: String
    let userName: String?
    /// Whether a name with a `/` stands for several levels where something is granted, as in mosquitto 2.0.
    var spansLevels = false

    func grants(_ wanted: AccessPermission, _ topic: TopicName) -> Bool {
        for line in own.filter({ $0.permission == .deny }) + own.filter({ $0.permission != .deny })
        where matches(line.filter, topic) {
            if line.permission == .deny { return false }
            if line.permission.contains(wanted) { return true }
        }
        if patterns.isEmpty { return false }
        if (clientIdentifier + (userName ?? "")).contains(where: { $0 == "+" || $0 == "#" }) { return false }
        for line in patterns.filter({ $0.permission == .deny }) + patterns.filter({ $0.permission != .deny }) {
            guard let filter = substituted(line.filter, line.permission), matches(filter, topic) else { continue }
            if line.permission == .deny { return false }
            if line.permission.contains(wanted) { return true }
        }
        return false
    }

    var policy: AccessPolicy {
        let users = EncodedString(userName ?? "").flatMap { name in userName == nil ? nil : [name: rules(own, isPattern: false)] }
        return AccessControl(
            anonymous: userName == nil ? rules(own, isPattern: false) : [], users: users ?? [:],
            patterns: rules(patterns, isPattern: true), spansLevels: spansLevels
        ).policy(userName: userName.flatMap { EncodedString($0) }, clientIdentifier: EncodedString(clientIdentifier) ?? "")
    }

    private func rules(_ lines: [Line], isPattern: Bool) -> [AccessRule] {
        lines.compactMap { line in
            AccessFilter(Array(line.filter.utf8), isPattern: isPattern).map { AccessRule(line.permission, $0) }
        }
    }

    private func matches(_ filter: String, _ topic: TopicName) -> Bool { TopicFilter(filter)?.matches(topic) ?? false }

    private func substituted(_ filter: String, _ permission: AccessPermission) -> String? {
        var levels = filter.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        for index in levels.indices {
            let value: String
            switch levels[index] {
            case "%c": value = clientIdentifier
            case "%u": value = userName ?? ""
            default: continue
            }
            if value.isEmpty || value.contains("/") && !spansLevels && permission != .deny { return nil }
            levels[index] = value
        }
        // A name that begins with $ is no way into such topics.
        let text = levels.joined(separator: "/")
        return text.first == "$" && filter.first != "$" ? nil : text
    }
}
