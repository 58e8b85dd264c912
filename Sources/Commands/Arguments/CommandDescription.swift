package import JSON

extension CommandPath {
    /// The command, its arguments and the commands below it, for programs that make manuals of it.
    package func describe(_ object: inout JSONWriter) {
        object.set("commandName", configuration.commandName)
        object.set("abstract", configuration.abstract)
        object.set("discussion", configuration.discussion)
        object.array("arguments") { array in
            for definition in definitions { array.object { definition.describe(&$0) } }
        }
        object.array("subcommands") { array in
            for subcommand in configuration.subcommands where subcommand.configuration.shouldDisplay {
                array.object { down(to: subcommand).describe(&$0) }
            }
        }
    }
}

extension ArgumentDefinition {
    fileprivate func describe(_ object: inout JSONWriter) {
        object.set("kind", kind.rawValue)
        object.set("valueName", valueName)
        object.set("abstract", help.abstract)
        object.set("isOptional", isOptional)
        object.set("isRepeating", isRepeating)
        if let defaultValue { object.set("defaultValue", defaultValue) }
        object.array("names") { array in
            for name in names {
                array.object { object in
                    switch name {
                    case .short(let letter):
                        object.set("kind", "short")
                        object.set("name", String(letter))
                    case .long(let name):
                        object.set("kind", "long")
                        object.set("name", name)
                    }
                }
            }
        }
    }
}
