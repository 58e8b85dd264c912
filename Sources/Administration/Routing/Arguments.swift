internal import HTTP

/// The query of a request, checked against its route's parameters: each once, none that the route does not know.
struct Arguments {
    private var values: [String: String] = [:]

    init(_ query: HTTPQuery, _ parameters: [RouteParameter]) throws(APIError) {
        for item in query.items {
            guard let parameter = parameters.first(where: { $0.name == item.name }) else {
                let known = parameters.isEmpty ? "none" : parameters.map(\.name).joined(separator: ", ")
                throw .badRequest(
                    "Unknown parameter \(JSONName.shown(item.name)); known: \(known).")
            }
            guard values[item.name] == nil else {
                throw .badRequest("\(item.name) is given more than once.")
            }
            if let objection = parameter.objection(to: item.value) { throw .badRequest(objection) }
            values[item.name] = item.value
        }
        if let missing = parameters.first(where: { $0.isRequired && values[$0.name] == nil }) {
            throw .badRequest("\(missing.name) is missing.")
        }
    }

    func text(_ name: String) -> String? { values[name] }

    func integer(_ name: String) -> Int? { values[name].flatMap { RouteParameter.integer($0) } }

    func boolean(_ name: String) -> Bool? { values[name].map { $0 == "true" } }

    func list(_ name: String) -> [String]? { values[name].map { RouteParameter.parts($0) } }

    /// The rows of a page.
    var limit: Int { integer("limit") ?? 50 }
}

/// A stranger's name in a message of ours.
enum JSONName {
    static func shown(_ name: String) -> String {
        name.utf8.count <= 64 ? "'\(name)'" : "'\(name.prefix(64))...'"
    }
}
