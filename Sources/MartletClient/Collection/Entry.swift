public import ClientCore

extension LiveCollection {
    /// What a collection has at a topic.
    public struct Entry: Sendable {
        /// The topic's parameters: a tuple, or the value itself if there is one. Of a collection without an endpoint, the topic.
        public let key: (repeat each Part)
        /// The topic at which the server retains it.
        public let topic: TopicName
        /// In `LiveCollection.Change.removed`, what was there last.
        public let value: Value
        /// In `LiveCollection.Change.changed`, what was there before.
        public let old: Value?
        /// Whether the server has told it, or it is a local write, of an earlier run, or the program's own.
        public let state: State

        /// Where an entry comes from.
        public typealias State = EntryState

        /// Nil if the topic or the payload is not what the collection is made of.
        init?(
            _ topic: TopicName, _ new: CollectionValue, old: CollectionValue? = nil,
            _ shape: CollectionShape<Value, repeat each Part>
        ) {
            guard let value = try? shape.decode(new.content) else { return nil }
            self.topic = topic
            self.value = value
            self.old = old.flatMap { try? shape.decode($0.content) }
            state = new.state
            // Last: the compiler fails on what would have to end these when a later line throws.
            do { key = try shape.key(topic) } catch { return nil }
        }
    }
}

extension LiveCollection.Entry: Identifiable {
    /// The topic: there is one entry for each.
    public var id: TopicName { topic }
}

/// Among the changed entries of a change: which fields are others.
extension LiveCollection.Entry {
    /// Whether a field is another than it was: `entry.hasChanged(\.title)`. False for an entry that was not there before.
    public func hasChanged<Field: Equatable>(_ field: KeyPath<Value, Field>) -> Bool {
        old.map { $0[keyPath: field] != value[keyPath: field] } ?? false
    }

    /// Whether a field had a value and has none now. False for an entry that was not there before.
    public func hasCleared<Field>(_ field: KeyPath<Value, Field?>) -> Bool {
        old.map { $0[keyPath: field] != nil && value[keyPath: field] == nil } ?? false
    }

    /// The names of the stored properties that are others than they were, in the order of their declaration; what they were stands in ``old``. None
    /// for an entry that was not there before, and for values without properties.
    ///
    /// Properties are compared with `==`, and those that are not `Equatable` by what they print. For one field that is known, ``hasChanged(_:)`` is quicker.
    public var changedFields: [String] {
        guard let old else { return [] }
        return zip(Mirror(reflecting: old).children, Mirror(reflecting: value).children).compactMap { before, now in
            guard let name = now.label, before.label == name, !isSame(before.value, now.value) else { return nil }
            return name
        }
    }
}

private func isSame(_ before: Any, _ now: Any) -> Bool {
    (before as? any Equatable)?.equals(now) ?? (String(reflecting: before) == String(reflecting: now))
}

extension Equatable {
    /// Nil if the other is of another type.
    fileprivate func equals(_ other: Any) -> Bool? { (other as? Self).map { $0 == self } }
}

extension LiveCollection {
    /// What one commit of a collection has changed. Entries of which only the state is another are among the changed ones.
    public struct Change: Sendable {
        /// Entries at topics where there was none.
        public private(set) var added: [Entry] = []
        /// Entries of another value or state than before.
        public private(set) var changed: [Entry] = []
        /// Entries that are gone, with what was there last.
        public private(set) var removed: [Entry] = []

        init(_ steps: [CollectionStep], _ shape: CollectionShape<Value, repeat each Part>) {
            for step in steps {
                let new = step.new.flatMap { Entry(step.topic, $0, old: step.old, shape) }
                if let new, new.old != nil {
                    changed.append(new)
                } else if let new {
                    added.append(new)
                } else if let old = step.old.flatMap({ Entry(step.topic, $0, shape) }) {
                    removed.append(old)
                }
            }
        }

        /// Whether nothing has changed.
        public var isEmpty: Bool { added.isEmpty && changed.isEmpty && removed.isEmpty }
    }
}

/// What a collection's topics and payloads stand for.
struct CollectionShape<Value: Sendable, each Part: Sendable>: Sendable {
    let key: @Sendable (TopicName) throws(ClientError) -> (repeat each Part)
    let topic: @Sendable (repeat each Part) throws(ClientError) -> TopicName
    let decode: @Sendable (EntryContent) throws(ClientError) -> Value
    /// The message that says a value; the collection sets what it needs.
    let encode: @Sendable (Value, TopicName) throws(ClientError) -> Publication

    /// What stands for nothing, and why.
    func undecodable(_ contents: [(topic: TopicName, content: EntryContent)]) -> [TopicName: ClientError] {
        var errors: [TopicName: ClientError] = [:]
        for (topic, content) in contents {
            do throws(ClientError) {
                _ = try key(topic)
                _ = try decode(content)
            } catch {
                errors[topic] = error
            }
        }
        return errors
    }
}

/// Topics and payloads as they are.
let plainCollectionShape = CollectionShape<Payload, TopicName>(
    key: { $0 }, topic: { $0 }, decode: { $0.payload }, encode: { Publication($1, $0) })
