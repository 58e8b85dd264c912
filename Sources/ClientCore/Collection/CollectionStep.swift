public import MQTTCodec

/// How sure a collection is of what it shows at a topic.
public enum EntryState: UInt8, Hashable, Sendable {
    /// From disk; the server has not been asked yet.
    case stored
    /// What the server has told.
    case confirmed
    /// Written here; the server has not told it back yet.
    case pending
    /// The program's own beside the server's; nobody else knows of it.
    case local
}

/// What a collection shows at a topic.
public struct CollectionValue: Hashable, Sendable {
    public var content: EntryContent
    public var state: EntryState

    public init(_ content: EntryContent, _ state: EntryState) { (self.content, self.state) = (content, state) }
}

/// What a retained message says: its bytes, and how they are to be read.
public struct EntryContent: Hashable, Sendable {
    public var payload: Payload
    /// MQTT 5.0 only.
    public var contentType: EncodedString?

    public init(_ payload: Payload, contentType: EncodedString? = nil) {
        (self.payload, self.contentType) = (payload, contentType)
    }

    /// In bytes.
    var size: Int { payload.count + (contentType?.bytes.count ?? 0) }

    /// A copy with memory of its own: what came shares it with much else.
    var copied: EntryContent {
        EntryContent(Payload(payload.bytes), contentType: contentType)
    }
}

extension EntryContent: ExpressibleByStringLiteral {
    public init(stringLiteral text: String) { self.init(Payload(text)) }
}

/// What a commit has changed at a topic: added where there was nothing, removed where there is nothing now.
public struct CollectionStep: Hashable, Sendable {
    public var topic: TopicName
    public var old: CollectionValue?
    public var new: CollectionValue?

    public init(_ topic: TopicName, old: CollectionValue?, new: CollectionValue?) {
        (self.topic, self.old, self.new) = (topic, old, new)
    }

    /// The steps of several commits as those of one: at most one for each topic, at the place of its first, none where
    /// nothing is different.
    public static func merged(_ steps: [CollectionStep]) -> [CollectionStep] {
        var places: [TopicName: Int] = [:]
        var merged: [CollectionStep] = []
        for step in steps {
            if let place = places[step.topic] {
                merged[place].new = step.new
            } else {
                places[step.topic] = merged.count
                merged.append(step)
            }
        }
        merged.removeAll { $0.old == $0.new }
        return merged
    }
}
