# {% include "variants/training_loop/" ~ training_loop ~ ".py" %}
