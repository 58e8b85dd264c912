/// Builds the topics of an endpoint of texts and parameters, level by level. A text may hold several levels: `"home/garden"`.
@resultBuilder
public enum TopicBuilder {
    /// A text: one level, or several with slashes between them.
    public static func buildExpression(_ text: String) -> String { text }

    /// A parameter: one level that differs.
    public static func buildExpression<Value>(_ parameter: Parameter<Value>) -> Parameter<Value> { parameter }

    /// A topic that begins with a text.
    public static func buildPartialBlock(first text: String) -> TopicPattern<> { TopicPattern(TopicTemplate().adding(text: text)) }

    /// A topic that begins with a parameter.
    public static func buildPartialBlock<Value>(first parameter: Parameter<Value>) -> TopicPattern<Value> {
        TopicPattern(TopicTemplate().adding(parameter: parameter.name, Value.self))
    }

    /// A topic that goes on with a text.
    public static func buildPartialBlock<each Part>(
        accumulated: TopicPattern<repeat each Part>, next text: String
    ) -> TopicPattern<repeat each Part> {
        TopicPattern(accumulated.template.adding(text: text))
    }

    /// A topic that goes on with a parameter.
    public static func buildPartialBlock<each Part, Value>(
        accumulated: TopicPattern<repeat each Part>, next parameter: Parameter<Value>
    ) -> TopicPattern<repeat each Part, Value> {
        TopicPattern(accumulated.template.adding(parameter: parameter.name, Value.self))
    }
}

/// Topics that differ in the values of their parameters.
public struct TopicPattern<each Part: TopicParameter>: Sendable {
    let template: TopicTemplate

    init(_ template: TopicTemplate) { self.template = template }

    /// The topic with these values. Throws `ClientError.topic`.
    func topic(_ parameters: repeat each Part) throws(ClientError) -> TopicName {
        var writer = TopicWriter(template)
        repeat writer.add((each parameters).topicLevel)
        return try writer.topic()
    }

    /// The filter of all topics with these values, where nil stands for any. Throws `ClientError.topic`.
    func filter(_ parameters: repeat (each Part)?) throws(ClientError) -> TopicFilter {
        var writer = TopicWriter(template)
        repeat writer.add((each parameters)?.topicLevel)
        return try writer.filter()
    }

    /// The values in a topic. Throws `ClientError.undecodable` if it is none of these topics.
    func parameters(of topic: TopicName) throws(ClientError) -> (repeat each Part) {
        var reader = TopicReader(template, topic)
        let parameters = (repeat try reader.next((each Part).self))
        try reader.finish()
        return parameters
    }
}
