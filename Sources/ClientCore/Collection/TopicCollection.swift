package import MQTTCodec

/// The retained messages below some topics, kept in step with the server: its values, what a new subscription gathers,
/// and local writes on top.
///
/// ```
///   shown at a topic  =  the overlay's latest write, else the server's value, else the program's own
///   restore ─► begin ─► received … ─► ended ─► received …            commit takes out what has changed since the last one
///                 ▲                               │
///                 └───────── new subscription ────┘
/// ```
/// Between `begin` and `ended` nothing of the server shows: at the end what is missing goes, and what is new comes, in
/// one commit.
package struct TopicCollection: Sendable {
    /// What a commit brings.
    package struct Commit: Sendable {
        /// The topics that show something else now, in the order in which they were touched.
        package var steps: [CollectionStep] = []
        /// What the server has otherwise now, as it has told or taken over; nil where it has nothing.
        package var stored: [(topic: TopicName, content: EntryContent?)] = []
        /// Writes that have come to stay, in order.
        package var confirmed: [UInt64] = []

        package var isEmpty: Bool { steps.isEmpty && stored.isEmpty && confirmed.isEmpty }
    }

    private struct ServerValue {
        var content: EntryContent
        var isChecked: Bool
    }

    private struct Before {
        var shown: CollectionValue?
        var content: EntryContent?
    }

    private let entriesMax: Int
    private let bytesMax: Int
    private let nonce: UInt64
    private var version = ProtocolVersion.v5
    private var server: [TopicName: ServerValue] = [:]
    /// Of the server's topics and what they have.
    private var bytes = 0
    private var generation: Generation?
    private var overlay = Overlay()
    /// What the program has put beside the server's values, and never publishes.
    private var local: [TopicName: EntryContent] = [:]
    /// What the subscription's messages carry, 0 for nothing.
    private var identifier: UInt32 = 0
    private var lastWrite: UInt64 = 0
    /// What the messages of writes of earlier runs carry.
    private var restoredWrites: [[UInt8]: UInt64] = [:]
    /// How often everything has been told.
    private var pictureCount = 0
    /// The values before the last commit, of the topics that were touched since.
    private var before: [TopicName: Before] = [:]
    private var touched: [TopicName] = []
    private var confirmed: [UInt64] = []
    /// How many messages found no room.
    package private(set) var omittedCount = 0

    /// - Parameters:
    ///   - entriesMax: how many topics the server may have here; more are left out.
    ///   - bytesMax: how many bytes their names and payloads may have.
    ///   - nonce: what no other collection has; marks its own writes.
    package init(entriesMax: Int, bytesMax: Int, nonce: UInt64) {
        (self.entriesMax, self.bytesMax, self.nonce) = (entriesMax, bytesMax, nonce)
    }
}

// MARK: - What is shown

extension TopicCollection {
    package subscript(topic: TopicName) -> CollectionValue? {
        if let write = overlay.latest(topic) { return write.map { CollectionValue($0, .pending) } }
        if let value = server[topic] { return CollectionValue(value.content, value.isChecked ? .confirmed : .stored) }
        return local[topic].map { CollectionValue($0, .local) }
    }

    /// All topics that show something, in no order.
    package var topics: [TopicName] {
        let own = local.keys.filter { server[$0] == nil }
        let written = overlay.topicsWritten.filter { server[$0] == nil && local[$0] == nil }
        return (Array(server.keys) + own + written).filter { self[$0] != nil }
    }

    /// Takes out what has changed since the last commit.
    package mutating func commit() -> Commit {
        var commit = Commit()
        for topic in touched {
            guard let before = before[topic] else { continue }
            let (shown, content) = (self[topic], known(topic))
            if shown != before.shown { commit.steps.append(CollectionStep(topic, old: before.shown, new: shown)) }
            if content != before.content { commit.stored.append((topic, content)) }
        }
        commit.confirmed = confirmed
        (before, touched, confirmed) = ([:], [], [])
        return commit
    }

    /// What the server has: what it has told, or taken over since.
    private func known(_ topic: TopicName) -> EntryContent? {
        if !overlay.isEmpty, let taken = overlay.latestAcknowledged(topic) { return taken }
        return server[topic]?.content
    }

    /// To be called before a topic's value or writes change.
    private mutating func touch(_ topic: TopicName) {
        if before[topic] != nil { return }
        before[topic] = Before(shown: self[topic], content: known(topic))
        touched.append(topic)
    }
}

// MARK: - From the disk and from the server

extension TopicCollection {
    /// Takes in what the disk has, before all else. The commit that follows does not store it again.
    package mutating func restore(_ values: [(topic: TopicName, content: EntryContent)]) {
        for (topic, content) in values where mayHold(topic, content, server.count, bytes) {
            touch(topic)
            before[topic]?.content = content
            bytes += topic.bytes.count + content.size
            server[topic] = ServerValue(content: content, isChecked: false)
        }
    }

    /// A new subscription is about to be made, which tells all that is retained. What an earlier one had gathered is
    /// forgotten.
    package mutating func begin(_ version: ProtocolVersion = .v5) {
        self.version = version
        generation = Generation()
    }

    /// The server speaks this version.
    package mutating func speaks(_ version: ProtocolVersion) { self.version = version }

    /// Whether a new subscription's messages are being gathered.
    package var isGathering: Bool { generation != nil }

    /// A message has come for the subscription, which has asked for Retain As Published. Of those without RETAIN the
    /// server keeps nothing: in MQTT 5.0 they are passed over. Earlier versions do not tell, nor do messages that came
    /// for somebody else's subscription to the filter.
    package mutating func received(_ message: ReceivedMessage) {
        let identifier = message.greatestSubscriptionIdentifier
        let isPassing = version == .v5 && !message.retain
        if isPassing, identifier == 0 || (generation == nil && identifier == self.identifier) { return }
        let content = message.payload.isEmpty ? nil : message.entryContent
        let echo = ownWrite(message, content?.payload)
        guard let gathered = generation else {
            if let echo { confirm(echo, message.topic) }
            return apply(message.topic, content)
        }
        if let echo { generation?.recordEcho(echo, message.topic) }
        guard
            gathered.contains(message.topic)
                || mayHold(message.topic, content ?? EntryContent(Payload()), gathered.count, gathered.bytes)
        else {
            omittedCount += 1
            return
        }
        generation?.gather(message.topic, content?.copied, identifier: identifier, isPassing: isPassing)
    }

    /// Everything that was retained when the subscription was made has come.
    /// - Parameter identifier: the Subscription Identifier that the mark came with, 0 for none.
    package mutating func ended(identifier: UInt32 = 0) {
        guard var generation = generation.take() else { return }
        pictureCount += 1
        self.identifier = identifier
        let retained = generation.retained(identifier: identifier)
        let kept = Set(retained.map(\.topic))
        let missing = server.keys.filter { !kept.contains($0) }
        for topic in missing.sorted(by: { $0.bytes.lexicographicallyPrecedes($1.bytes) }) { apply(topic, nil) }
        for (topic, content) in retained { apply(topic, content) }
        for (topic, number) in generation.ownEchoes { confirm(number, topic) }
        // What was acknowledged and is not among it was there before, and another's came after it.
        for (topic, number) in overlay.acknowledgedWrites { confirm(number, topic) }
    }

    private mutating func apply(_ topic: TopicName, _ content: EntryContent?) {
        touch(topic)
        let old = server[topic]
        bytes -= old.map { topic.bytes.count + $0.content.size } ?? 0
        guard let content else {
            server[topic] = nil
            return
        }
        guard old != nil || mayHold(topic, content, server.count, bytes) else {
            omittedCount += 1
            return
        }
        bytes += topic.bytes.count + content.size
        let kept = old?.content == content ? old?.content : content.copied
        server[topic] = ServerValue(content: kept ?? content, isChecked: true)
    }

    private func mayHold(_ topic: TopicName, _ content: EntryContent, _ count: Int, _ bytes: Int) -> Bool {
        count < entriesMax && bytes + topic.bytes.count + content.size <= bytesMax
    }
}

// MARK: - Local writes

extension TopicCollection {
    /// Shows a local write at once; nil removes. Returns its number, and what its message has to carry as Correlation
    /// Data.
    package mutating func write(_ topic: TopicName, _ content: EntryContent?) -> (number: UInt64, correlationData: [UInt8]) {
        touch(topic)
        lastWrite += 1
        overlay.write(lastWrite, topic, content, picture: pictureCount)
        return (lastWrite, correlationData(lastWrite))
    }

    /// Shows a write of an earlier run, which is still to be sent, or on its way.
    ///
    /// - Parameter correlationData: what its message carries as Correlation Data.
    /// - Returns: its number.
    package mutating func restoreWrite(_ topic: TopicName, _ content: EntryContent?, correlationData: [UInt8]?) -> UInt64 {
        let number = write(topic, content).number
        if let correlationData { restoredWrites[correlationData] = number }
        return number
    }

    /// A write leaves only now, after others to its topic.
    package mutating func published(_ number: UInt64) { overlay.published(number, picture: pictureCount) }

    /// The server has taken a write over; it is shown until it comes back.
    package mutating func acknowledged(_ number: UInt64) {
        guard let topic = overlay.topic(of: number) else { return }
        touch(topic)
        // While a picture is being gathered its end decides.
        confirm(overlay.acknowledged(number, picture: generation == nil ? pictureCount : 0), topic)
    }

    /// A write was refused, or given up: what was there before shows again.
    package mutating func refused(_ number: UInt64) {
        guard let topic = overlay.topic(of: number) else { return }
        touch(topic)
        overlay.refused(number)
    }

    /// Whether a write is neither confirmed nor refused.
    package func isPending(_ number: UInt64) -> Bool { overlay.topic(of: number) != nil }

    private mutating func confirm(_ number: UInt64, _ topic: TopicName) {
        touch(topic)
        confirm(overlay.echoed(number, topic), topic)
    }

    /// These writes have come to stay: what they were made of, or were to replace, is the server's matter now.
    private mutating func confirm(_ numbers: [UInt64], _ topic: TopicName) {
        if !numbers.isEmpty { local[topic] = nil }
        confirmed += numbers
    }

    /// Which write of this collection a message is; nil if it is another's.
    private func ownWrite(_ message: ReceivedMessage, _ payload: Payload?) -> UInt64? {
        guard version == .v5 else { return overlay.match(message.topic, payload) }
        guard message.hasProperties, let data = message.properties.correlationData, data.count == 16 else { return nil }
        if !restoredWrites.isEmpty, let number = restoredWrites[data] { return number }
        let number = data[8...].reduce(0) { $0 << 8 | UInt64($1) }
        return data == correlationData(number) ? number : nil
    }

    private func correlationData(_ number: UInt64) -> [UInt8] {
        [nonce, number].flatMap { value in (0..<8).map { UInt8(truncatingIfNeeded: value >> UInt64(56 - 8 * $0)) } }
    }
}

// MARK: - The program's own

extension TopicCollection {
    /// Puts a value beside the server's, to be shown where the server has none; nil takes it away.
    package mutating func setLocal(_ topic: TopicName, _ content: EntryContent?) {
        touch(topic)
        local[topic] = content
    }

    /// Takes all of them away.
    package mutating func removeAllLocal() {
        for topic in local.keys.sorted(by: { $0.bytes.lexicographicallyPrecedes($1.bytes) }) { setLocal(topic, nil) }
    }
}

extension ReceivedMessage {
    fileprivate var entryContent: EntryContent {
        EntryContent(payload, contentType: hasProperties ? properties.contentType : nil)
    }

    /// 0 for none.
    package var greatestSubscriptionIdentifier: UInt32 {
        max(subscriptionIdentifier, hasProperties ? properties.subscriptionIdentifiers.max() ?? 0 : 0)
    }
}

/// What has come for one subscription since SUBSCRIBE, gathered until the server has told everything that it retains.
///
/// Messages of the subscription before may still come, from a session's queue that has lost what came after them: they
/// are known by a Subscription Identifier that is not that of the end-of-retained message, nor one of the next behind
/// it, and count for nothing. An earlier process that had the session may have had greater ones. Without identifiers
/// all count.
package struct Generation: Sendable {
    private struct Arrival {
        /// Nil where the topic was cleared.
        var content: EntryContent?
        var identifier: UInt32
    }

    /// The latest of each identifier, for what the end-of-retained message's identifier comes last.
    private var arrivals: [TopicName: [Arrival]] = [:]
    /// The keys, in the order in which they came.
    private var topics: [TopicName] = []
    /// What came without RETAIN for a subscription that has an identifier: it counts if that is not this one, which
    /// would have kept the flag.
    private var others: [(topic: TopicName, arrival: Arrival)] = []
    /// The latest write of this collection that came back, for each topic.
    private var echoes: [TopicName: UInt64] = [:]
    private(set) var bytes = 0

    package init() {}

    package var count: Int { arrivals.count + others.count }

    package func contains(_ topic: TopicName) -> Bool { arrivals[topic] != nil }

    /// Takes a message in. What comes late from an older subscription does not replace what a newer one has told.
    ///
    /// - Parameter isPassing: it came without RETAIN, and counts only if the subscription that it came for is not this
    ///   one.
    package mutating func gather(_ topic: TopicName, _ content: EntryContent?, identifier: UInt32, isPassing: Bool = false) {
        bytes += content?.size ?? 0
        if isPassing {
            bytes += topic.bytes.count
            return others.append((topic, Arrival(content: content, identifier: identifier)))
        }
        let arrival = Arrival(content: content, identifier: identifier)
        guard let known = arrivals[topic] else {
            topics.append(topic)
            bytes += topic.bytes.count
            arrivals[topic] = [arrival]
            return
        }
        guard let place = known.firstIndex(where: { $0.identifier == identifier }) else {
            arrivals[topic]?.append(arrival)
            return
        }
        bytes -= known[place].content?.size ?? 0
        arrivals[topic]?[place] = arrival
    }

    /// The message was this collection's own write of that number.
    package mutating func recordEcho(_ number: UInt64, _ topic: TopicName) { echoes[topic] = max(number, echoes[topic] ?? 0) }

    /// What the server has, in order of arrival, if the end-of-retained message came with that identifier; 0 for none.
    package mutating func retained(identifier: UInt32) -> [(topic: TopicName, content: EntryContent)] {
        for (topic, other) in others where other.identifier != identifier && Self.isOf(other.identifier, since: identifier) {
            gather(topic, other.content, identifier: other.identifier)
        }
        return topics.compactMap { topic in
            let counting = arrivals[topic]?.filter { Self.isOf($0.identifier, since: identifier) }
            guard let content = counting?.max(by: { $0.identifier < $1.identifier })?.content else { return nil }
            return (topic, content)
        }
    }

    /// How many subscriptions a process makes at most between one and the end-of-retained message for it. Identifiers
    /// of processes begin anywhere: of another's, hardly any is so near.
    private static let laterSubscriptionsMax: UInt32 = 1000

    /// Whether a subscription is that of the end-of-retained message, or was made by this process after it.
    private static func isOf(_ identifier: UInt32, since end: UInt32) -> Bool {
        end == 0 || (identifier >= end && identifier - end <= laterSubscriptionsMax)
    }

    /// The latest own write that came back, for each topic, by number.
    package var ownEchoes: [(topic: TopicName, number: UInt64)] {
        echoes.sorted { $0.value < $1.value }.map { ($0.key, $0.value) }
    }
}

/// Local writes over the server's values: each is shown until it comes back, or the server refuses it.
///
/// ```
///   write ──► pending ──own echo, or that of a later write─────────► confirmed
///               │ ├────acknowledged, and a picture was whole since──► confirmed: what the server has now, the picture told
///               │ └────a later one is known to be taken────────────► superseded ──acknowledged──► confirmed
///               └──────refused───────────────► rolled back                        └──refused────► rolled back
/// ```
/// Writes are numbered from 1 in the order in which they are published, and the server takes those of one topic in that
/// order.
package struct Overlay: Sendable {
    private struct LocalWrite {
        let number: UInt64
        /// Nil removes.
        let content: EntryContent?
        /// How many pictures of the server were whole when it was published.
        var picture: Int
        var isAcknowledged = false
    }

    /// Each topic's writes that are not confirmed, the latest last: that one is shown.
    private var writes: [TopicName: [LocalWrite]] = [:]
    /// The topic of each that is not decided.
    private var topics: [UInt64: TopicName] = [:]

    package init() {}

    /// Whether no write is undecided.
    package var isEmpty: Bool { topics.isEmpty }

    /// Where a write that is not decided goes to.
    package func topic(of number: UInt64) -> TopicName? { topics[number] }

    /// The content that a topic's latest write shows; nil if no write lies over it.
    package func latest(_ topic: TopicName) -> EntryContent?? { writes[topic]?.last.map(\.content) }

    /// What the server has taken over last at a topic, and not sent back; nil if there is no such write.
    package func latestAcknowledged(_ topic: TopicName) -> EntryContent?? {
        writes[topic]?.last(where: \.isAcknowledged).map(\.content)
    }

    /// The topics that writes lie over, in no order.
    package var topicsWritten: [TopicName] { Array(writes.keys) }

    package mutating func write(_ number: UInt64, _ topic: TopicName, _ content: EntryContent?, picture: Int = 0) {
        writes[topic, default: []].append(LocalWrite(number: number, content: content, picture: picture))
        topics[number] = topic
    }

    /// A write leaves only now.
    package mutating func published(_ number: UInt64, picture: Int) { change(number) { $0.picture = picture } }

    private mutating func change(_ number: UInt64, _ body: (inout LocalWrite) -> Void) {
        guard let topic = topics[number], let place = writes[topic]?.firstIndex(where: { $0.number == number }) else { return }
        if var write = writes[topic]?[place] {
            body(&write)
            writes[topic]?[place] = write
        }
    }

    /// The first write to a topic that a message with that payload may be, where no Correlation Data tells.
    package func match(_ topic: TopicName, _ payload: Payload?) -> UInt64? {
        writes[topic]?.first { $0.content?.payload == payload }?.number
    }

    /// A write has come back. Returns those that are confirmed by it, in order.
    package mutating func echoed(_ number: UInt64, _ topic: TopicName) -> [UInt64] {
        let isKnown = topics[number] != nil
        return settle(topic, through: number) { $0.isAcknowledged || (isKnown && $0.number == number) }
    }

    /// The server has taken a write over; so many pictures of it were whole by now. Returns what is confirmed by that:
    /// a write of which a later one has come back already, and one that may have been in the server before the last
    /// picture was begun. It will not come back if another's came after it, and has not stayed if it removed.
    package mutating func acknowledged(_ number: UInt64, picture: Int) -> [UInt64] {
        guard let topic = topics[number] else { return [] }
        guard let write = writes[topic]?.first(where: { $0.number == number }) else {
            topics[number] = nil
            return [number]
        }
        change(number) { $0.isAcknowledged = true }
        return write.picture < picture ? echoed(number, topic) : []
    }

    /// A write will not be: what lay below it shows again.
    package mutating func refused(_ number: UInt64) {
        guard let topic = topics.removeValue(forKey: number) else { return }
        writes[topic]?.removeAll { $0.number == number }
        if writes[topic]?.isEmpty == true { writes[topic] = nil }
    }

    /// The topics with a write that the server has taken over and that has not come back, each with the latest such.
    package var acknowledgedWrites: [(topic: TopicName, number: UInt64)] {
        writes.compactMap { topic, writes in writes.last(where: \.isAcknowledged).map { (topic, $0.number) } }
            .sorted { $0.number < $1.number }
    }

    /// Takes the writes to a topic up to one of them away. Returns those of which `isConfirmed` is true; the others
    /// wait for their answer.
    private mutating func settle(_ topic: TopicName, through number: UInt64, _ isConfirmed: (LocalWrite) -> Bool) -> [UInt64] {
        guard let all = writes[topic] else { return [] }
        let over = all.prefix { $0.number <= number }
        let left = Array(all.dropFirst(over.count))
        writes[topic] = left.isEmpty ? nil : left
        let confirmed = over.filter(isConfirmed).map(\.number)
        for number in confirmed { topics[number] = nil }
        return confirmed
    }
}
