internal import Glibc
internal import Platform

/// Where a `StubClient` has its samples from.
public struct StubSamples: Sendable {
    private let source: any StubSource

    /// No samples: only what is published comes.
    public static let none = declared([])

    /// The samples of endpoints and calls. Where a subscription leaves a parameter open, its sample comes once, at the first case of an
    /// enumeration, or at the parameter's name or 1, whichever is a value of its type.
    public static func declared(_ declarations: [any EndpointDeclaration]) -> StubSamples {
        StubSamples(source: DeclaredSamples(declarations: declarations.map(\.declaration)))
    }

    /// Files below a folder, named by their topic and what they are: `map/place/search.json` (JSON), `.txt` (text) or `.bin`. They are
    /// read when they are asked for; filters with wildcards find none.
    public static func folder(_ path: String) -> StubSamples { StubSamples(source: SampleFolder(path: path)) }

    /// The samples for a subscription.
    func messages(for filter: TopicFilter) throws(ClientError) -> [Publication] { try source.messages(for: filter) }

    /// The answer to a request, nil if there is no sample for it.
    func answer(to request: Publication) throws(ClientError) -> Publication? {
        guard let responseTopic = request.properties.responseTopic.flatMap({ TopicName($0.bytes) }) else { return nil }
        guard var answer = try source.answer(at: request.topic) else { return nil }
        answer.topic = responseTopic
        answer.properties.correlationData = request.properties.correlationData
        return answer
    }
}

private protocol StubSource: Sendable {
    func messages(for filter: TopicFilter) throws(ClientError) -> [Publication]
    /// The topic of what is returned does not matter.
    func answer(at topic: TopicName) throws(ClientError) -> Publication?
}

private struct DeclaredSamples: StubSource {
    let declarations: [EndpointDescription]

    func messages(for filter: TopicFilter) throws(ClientError) -> [Publication] {
        var samples: [Publication] = []
        for declaration in declarations where declaration.kind != .call {
            guard let topic = declaration.template.topic(chosenBy: filter) else { continue }
            if let sample = try declaration.sampleMessage(topic) { samples.append(sample) }
        }
        return samples
    }

    func answer(at topic: TopicName) throws(ClientError) -> Publication? {
        for declaration in declarations where declaration.kind == .call {
            if try declaration.template.filter().matches(topic) { return try declaration.sampleMessage(topic) }
        }
        return nil
    }
}

private struct SampleFolder: StubSource {
    let path: String
    private static let kinds: [(suffix: String, contentType: EncodedString?)] = [
        (".json", "application/json"), (".txt", "text/plain"), (".bin", nil),
    ]

    func messages(for filter: TopicFilter) throws(ClientError) -> [Publication] {
        guard let topic = TopicName(filter.bytes), let sample = try answer(at: topic) else { return [] }
        return [sample]
    }

    func answer(at topic: TopicName) throws(ClientError) -> Publication? {
        let levels = "\(topic)".split(separator: "/", omittingEmptySubsequences: false)
        // Nothing outside the folder.
        guard levels.allSatisfy({ !["", ".", ".."].contains($0) }) else { return nil }
        for kind in Self.kinds {
            let file = "\(path)/\(topic)\(kind.suffix)"
            do throws(WholeFile.Failure) {
                var sample = Publication(
                    topic, Payload(try WholeFile.bytes(of: file, bytesMax: Limits.sampleBytesMax)), qos: .atLeastOnce)
                sample.retain = true
                sample.properties.contentType = kind.contentType
                return sample
            } catch .refused(let error) where [ENOENT, ENOTDIR].contains(error.errno) {
                continue
            } catch {
                throw .settings("\(file): \(error)")
            }
        }
        return nil
    }
}

extension TopicTemplate {
    /// A topic that the filter matches, where there is one: parameters are as the filter says, else some value of their type.
    func topic(chosenBy filter: TopicFilter) -> TopicName? {
        let wanted = filter.matchingBytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        var writer = TopicWriter(self)
        for case (let index, .parameter(let name, let type)) in levels.enumerated() {
            let asked = index < wanted.count ? String(decoding: wanted[index], as: UTF8.self) : "#"
            guard let level = type.level(of: asked, name) else { return nil }
            writer.add(level)
        }
        return (try? writer.topic()).flatMap { filter.matches($0) ? $0 : nil }
    }
}

extension TopicParameter {
    /// The level that is asked for, for a wildcard that of some value; nil if there is none.
    fileprivate static func level(of asked: String, _ name: String) -> String? {
        if !["+", "#"].contains(asked) { return Self(topicLevel: asked)?.topicLevel == asked ? asked : nil }
        if let type = Self.self as? any CaseIterable.Type { return (firstCase(of: type) as? Self)?.topicLevel }
        return [name, "1", "true"].first { Self(topicLevel: $0)?.topicLevel == $0 }
    }
}

private func firstCase<Type: CaseIterable>(of type: Type.Type) -> Any? { type.allCases.first }
